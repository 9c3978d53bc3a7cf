"""Pooling along one dimension after the other."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.group import GroupOp
from tcopt.dialects.graph.pool import PoolOp
from tcopt.dialects.target import target_facts_of
from tcopt.support.remarks import remark
from tcopt.support.rewriting import rewrite

STORED = 2
"""What storing and loading an element in between costs, in elements of windows."""

LEAST_GAIN = 1.1
"""How many times the work of separate windows that of whole ones should be."""


class SeparatePool(RewritePattern):
    """Write pooling with large windows as one along rows' places and one along columns'.

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
            # Somebody else has the operator already, as an accelerator.
            return
        parts = op.by_dimensions() if _gains(op) else None
        if parts is not None:
            remark(SeparatePoolsPass.name, op, "one dimension after the other")
            rewriter.replace(op, parts)


@dataclass(frozen=True)
class SeparatePoolsPass(ModulePass):
    """Write pooling with large windows as one along rows' places and one along columns'.

    A window of 5x5 elements takes 25 steps; its rows are those of windows beside it as well,
    so that 5 steps down and 5 across do. Strides across the columns make fewer windows share
    rows. On a GPU pooling waits for memory, and stays; so does it without a target.

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
