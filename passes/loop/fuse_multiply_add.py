"""The pass `fuse-multiply-add`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.table import ScaleOp


@dataclass(frozen=True)
class FuseMultiplyAddPass(ModulePass):
    """Contracts a product that is only used in a sum into a fused multiply-add, as
    `lower-loop-to-kernel` does: what is unrolled in between has fewer ops to copy.

        %p = arith.mulf %a, %b : vector<8xf32>
        %s = arith.addf %c, %p : vector<8xf32>
        ->
        %s = vector.fma %a, %b, %c : vector<8xf32>

    A sum with products of tables stays: where their entry is 0 nothing is added.
    """

    name = "fuse-multiply-add"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, loop.FuncOp):
                _visit(function.body.block)


def _visit(block: Block) -> None:
    for op in tuple(block.ops):
        if isinstance(op, arith.AddfOp):
            _fuse(op)
        for region in op.regions:
            for inner in region.blocks:
                _visit(inner)


def _fuse(op: arith.AddfOp) -> None:
    for product, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        factor = product.owner
        if isinstance(factor, arith.MulfOp) and product.has_one_use() and not _may_vanish(other):
            new = multiply_add(factor.lhs, factor.rhs, other)
            block = op.parent
            assert block is not None
            new.results[0].name_hint = op.result.name_hint
            block.insert_op_before(new, op)
            op.result.replace_all_uses_with(new.results[0])
            for old in (op, factor):
                old.detach()
                old.erase()
            return


def multiply_add(a: SSAValue, b: SSAValue, c: SSAValue) -> vector.FMAOp | math.FmaOp:
    """The op for `a * b + c`, rounded once."""
    return (vector.FMAOp if isa(c.type, VectorType) else math.FmaOp)(a, b, c)


def _may_vanish(value: SSAValue) -> bool:
    """Whether a term may be 0 in some copies of an unrolled loop."""
    match value.owner:
        case ScaleOp():
            return True
        case arith.AddfOp() as total:
            return _may_vanish(total.lhs) and _may_vanish(total.rhs)
        case _:
            return False
