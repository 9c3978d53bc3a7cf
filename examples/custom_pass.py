"""Two passes of your own. Run this file, or give it to `tcopt --load`:

tcopt examples/gate.mlir --load examples/custom_pass.py -p raise-silu,annotate-work
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from tcopt.dialects import graph


class MulBySigmoid(RewritePattern):
    """x * sigmoid(x) is silu(x)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.MulOp, rewriter: PatternRewriter) -> None:
        for x, gate in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if isinstance(gate.owner, graph.SigmoidOp) and gate.owner.x is x:
                silu = graph.SiluOp(x)
                silu.location = op.location
                rewriter.replace(op, silu)
                return


@dataclass(frozen=True)
class RaiseSilu(ModulePass):
    """Name the activation that a product with a sigmoid spells out.

        %0 = graph.sigmoid %x : tensor<4x8xf32>
        %1 = graph.mul %x, %0 : tensor<4x8xf32>
    ->
        %1 = graph.silu %x : tensor<4x8xf32>
    """

    name = "raise-silu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(MulBySigmoid()).rewrite_module(op)


@dataclass(frozen=True)
class AnnotateWork(ModulePass):
    """Say of each operator how much it computes and how it fuses.

        %1 = graph.silu %x : tensor<4x8xf32>
    ->
        %1 = graph.silu %x {fuses = "injective", work = 32} : tensor<4x8xf32>

    Options:
        least: operators with fewer scalar operations are left alone.
    """

    name = "annotate-work"

    least: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, graph.GraphOp) and inner.work() >= self.least:
                inner.attributes["work"] = IntegerAttr(inner.work(), i64)
                inner.attributes["fuses"] = StringAttr(inner.fusion_kind.value)


def main() -> int:
    """Run both passes on `gate.mlir`, showing what each changed and that results stay."""
    from tcopt.tools import tcopt

    pipeline = "raise-silu,annotate-work"
    gate = Path(__file__).with_name("gate.mlir")
    return tcopt.main([str(gate), "--load", __file__, "-p", pipeline, "--verify-each=exec"])


if __name__ == "__main__":
    sys.exit(main())
