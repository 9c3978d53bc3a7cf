"""Separation of pooling into one dimension at a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.control.group import GroupOp
from tcopt.dialects.graph.reduction.pool import PoolOp
from tcopt.dialects.target import target_facts_of
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.remarks import remark

STORED = 2
"""Cost of storing and loading an intermediate element, in units of one window element."""

LEAST_GAIN = 1.1
"""Minimum ratio of the work of whole windows to that of separate ones."""


class SeparatePool(RewritePattern):
    """Rewrite a pool with large windows as a pool along the columns and one along the rows.

        %y = graph.pool %x {kind = max, kernel = [5, 5], pads = [2, 2, 2, 2]}
            : tensor<1x8x16x16xf32>
    ->
        %0 = graph.pool %x {kind = max, kernel = [5, 1], pads = [2, 0, 2, 0]}
            : tensor<1x8x16x16xf32>
        %y = graph.pool %0 {kind = max, kernel = [1, 5], pads = [0, 2, 0, 2]}
            : tensor<1x8x16x16xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PoolOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.parent_op(), GroupOp):
            # The operator is already assigned to another processor.
            return
        parts = op.by_dimensions() if _gains(op) else None
        if parts is not None:
            remark(SeparatePoolsPass.name, op, "one dimension at a time")
            rewriter.replace(op, parts)


@dataclass(frozen=True)
class SeparatePoolsPass(ModulePass):
    """Rewrite pools with large windows as a pool along the columns and one along the rows.

    A window of 5x5 elements takes 25 steps; neighbouring windows share its columns, so 5 steps
    along columns and 5 along rows suffice. With a stride along the width, fewer windows share a
    column. On a GPU, pooling is bound by memory and is not changed; nor is it without a target.

        %y = graph.pool %x {kind = max, kernel = [5, 5], pads = [2, 2, 2, 2]}
            : tensor<1x8x16x16xf32>
    ->
        %0 = graph.pool %x {kind = max, kernel = [5, 1], pads = [2, 0, 2, 0]}
            : tensor<1x8x16x16xf32>
        %y = graph.pool %0 {kind = max, kernel = [1, 5], pads = [0, 2, 0, 2]}
            : tensor<1x8x16x16xf32>
    """

    name = "separate-pools"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is not None and not target.lanes_are_threads:
            rewrite(op, [SeparatePool()])


def _gains(op: PoolOp) -> bool:
    window = op.window
    *outer, last = window.kernel
    separate = prod(outer) * window.strides[-1] + last + STORED
    return prod(window.kernel) >= LEAST_GAIN * separate
