"""Contraction of products and sums to fused multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects import loop
from tcopt.dialects.table import ScaleOp
from tcopt.passes.loop.analysis.contraction import contraction
from tcopt.support.ir.rewriting import rewrite


class FuseMultiplyAdd(RewritePattern):
    """Fuse a sum with a single-use product, if both permit contraction.

    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %c, %p fastmath<contract> : f32
    ->
    %s = math.fma %a, %b, %c : f32
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddfOp, rewriter: PatternRewriter) -> None:
        found = contraction(op, stays=_may_vanish)
        if found is not None:
            rewriter.replace(op, found.kind(*found.operands))
            rewriter.erase(found.product)


def _may_vanish(value: SSAValue) -> bool:
    """Whether a term may be 0 in some copies of an unrolled loop."""
    match value.owner:
        case ScaleOp():
            return True
        case arith.AddfOp() as total:
            return _may_vanish(total.lhs) and _may_vanish(total.rhs)
        case _:
            return False


@dataclass(frozen=True)
class FuseMultiplyAddPass(ModulePass):
    """Contract single-use products and sums into fused multiply-adds before unrolling.

        %p = arith.mulf %a, %b fastmath<contract> : vector<8xf32>
        %s = arith.addf %c, %p fastmath<contract> : vector<8xf32>
        ->
        %s = vector.fma %a, %b, %c : vector<8xf32>

    Both ops must permit it. `lower-loop-to-kernel` does the same, but loops that are unrolled
    before it then have fewer ops to copy. A sum with products by table entries is not contracted:
    it disappears if the entry is 0.
    """

    name = "fuse-multiply-add"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, loop.FuncOp):
                rewrite(function, [FuseMultiplyAdd()])
