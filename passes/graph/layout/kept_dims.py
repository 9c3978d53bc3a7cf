"""Rewriting of ops that drop dimensions after the channels, so that they have blocked forms."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.support.ir.rewriting import replace, take_choices


def keep_dims(body: Block) -> None:
    """Keep the dimensions that ops after a convolution drop, and drop them by a reshape instead.

        %r = graph.reduce %c {kind = max, axes = [2]} : tensor<1x64xf32>
    ->
        %0 = graph.reduce %c {kind = max, axes = [2], keepdims} : tensor<1x64x1xf32>
        %r = graph.reshape %0 : tensor<1x64xf32>
    """
    convolved: set[SSAValue] = set()
    for op in list(body.ops):
        if isinstance(op, GraphOp) and op.makes_blocks:
            convolved.update(op.results)
        if not isinstance(op, GraphOp) or convolved.isdisjoint(op.operands):
            continue
        if op.is_elementwise:
            convolved.update(op.results)
        if (parts := op.with_dims_kept()) is not None:
            take_choices(parts[-1], op)
            parts[-1].results[0].name_hint = op.results[0].name_hint
            replace(op, parts)
