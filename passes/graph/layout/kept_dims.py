"""Rewriting of ops that drop dimensions after the channels, so that they have blocked forms."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.reduction.reduce import ReduceOp
from tcopt.passes.graph.layout.blocked_forms import contracts
from tcopt.support.ir.rewriting import replace, take_choices
from tcopt.support.registries.rule_table import OpFunction

with_dims_kept: OpFunction[[], Sequence[GraphOp] | None] = OpFunction(__name__, None)
"""Ops equivalent to one that drops dimensions: ops that keep all dimensions, followed by one that
drops dimensions of size 1; None if it drops no dimensions after the channels."""


def keep_dims(body: Block) -> None:
    """Keep the dimensions that ops after a convolution drop, and drop them by a reshape instead.

        %r = graph.reduce %c {kind = max, axes = [2]} : tensor<1x64xf32>
    ->
        %0 = graph.reduce %c {kind = max, axes = [2], keepdims} : tensor<1x64x1xf32>
        %r = graph.reshape %0 : tensor<1x64xf32>
    """
    convolved: set[SSAValue] = set()
    for op in list(body.ops):
        if contracts(op):
            convolved.update(op.results)
        if not isinstance(op, GraphOp) or convolved.isdisjoint(op.operands):
            continue
        if op.is_elementwise:
            convolved.update(op.results)
        if (parts := with_dims_kept(op)) is not None:
            take_choices(parts[-1], op)
            parts[-1].results[0].name_hint = op.results[0].name_hint
            replace(op, parts)


@with_dims_kept.rule_for(ReduceOp)
def _reduce(op: ReduceOp) -> Sequence[GraphOp] | None:
    axes = op.axes.get_values()
    if op.keepdims is not None or not axes or not all(axis >= 2 for axis in axes):
        return None
    kept = ReduceOp(op.x, kind=op.kind.data.value, axes=axes, keepdims=True)
    return kept, ReshapeOp(kept, op.shape)
