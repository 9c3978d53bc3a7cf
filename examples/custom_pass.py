"""Three custom passes. Run this file, or pass it to `tcopt --load`:

tcopt examples/gate.mlir --load examples/custom_pass.py -p raise-silu,join-scales,annotate-work
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects import graph
from tcopt.passes.canonicalize import simplifications
from tcopt.passes.graph.folding.constants import Constants
from tcopt.passes.graph.folding.fold_scale import MultiplyByInverse
from tcopt.support.ir.rewriting import rewrite


class MulBySigmoid(RewritePattern):
    """Replace x * sigmoid(x) by silu(x).

        %0 = graph.sigmoid %x : tensor<4x8xf32>
        %1 = graph.mul %x, %0 : tensor<4x8xf32>
    ->
        %1 = graph.silu %x : tensor<4x8xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.MulOp, rewriter: PatternRewriter) -> None:
        for x, gate in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if isinstance(gate.owner, graph.SigmoidOp) and gate.owner.x is x:
                rewriter.replace(op, graph.SiluOp(x))
                return


@dataclass(frozen=True)
class RaiseSiluPass(ModulePass):
    """Replace a multiplication by a sigmoid by the activation silu.

        %0 = graph.sigmoid %x : tensor<4x8xf32>
        %1 = graph.mul %x, %0 : tensor<4x8xf32>
    ->
        %1 = graph.silu %x : tensor<4x8xf32>
    """

    name = "raise-silu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [MulBySigmoid()])


@dataclass
class JoinScales(RewritePattern):
    """Merge two multiplications by constants.

        %0 = graph.mul %x, %a : tensor<4x8xf32>
        %1 = graph.mul %0, %b : tensor<4x8xf32>
    ->
        %c = graph.constant dense<...> : tensor<8xf32>
        %1 = graph.mul %x, %c : tensor<4x8xf32>
    """

    constants: Constants

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.MulOp, rewriter: PatternRewriter) -> None:
        inner = op.lhs.owner
        if not isinstance(inner, graph.MulOp) or inner.lhs.type != op.type:
            return
        first, second = self.constants.value(inner.rhs), self.constants.value(op.rhs)
        if first is None or second is None:
            return
        both = self.constants.like(first * second, inner.rhs, "joined")
        rewriter.replace(op, [both, graph.MulOp(inner.lhs, both)])


@dataclass(frozen=True)
class JoinScalesPass(ModulePass):
    """Merge multiplications and divisions by constants into one multiplication.

        %0 = graph.mul %x, %a : tensor<4x8xf32>
        %1 = graph.div %0, %b : tensor<4x8xf32>
    ->
        %1 = graph.mul %x, %c : tensor<4x8xf32>
    """

    name = "join-scales"
    moves_values = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        constants = Constants(op)
        own = [MultiplyByInverse(constants), JoinScales(constants)]
        rewrite(op, [*simplifications(ctx), *own])


@dataclass(frozen=True)
class AnnotateWorkPass(ModulePass):
    """Annotate each operator with its work and its fusion kind.

        %1 = graph.silu %x : tensor<4x8xf32>
    ->
        %1 = graph.silu %x {fuses = "injective", work = 32} : tensor<4x8xf32>

    Options:
        least: operators with fewer scalar operations are not annotated.
    """

    name = "annotate-work"

    least: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, graph.GraphOp) and inner.work() >= self.least:
                inner.attributes["work"] = IntegerAttr(inner.work(), i64)
                inner.attributes["fuses"] = StringAttr(inner.fusion_kind.value)


def main() -> int:
    """Run the passes on `gate.mlir` and check that each preserves the results."""
    from tcopt.tools import tcopt

    pipeline = "raise-silu,join-scales,annotate-work"
    gate = Path(__file__).with_name("gate.mlir")
    return tcopt.main([str(gate), "--load", __file__, "-p", pipeline, "--verify-each=exec"])


if __name__ == "__main__":
    sys.exit(main())
