"""Simplification of reshapes and broadcasts."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.interfaces import GraphOp, Simplify
from tcopt.dialects.graph.core.types import broadcast_shapes, shape_of
from tcopt.dialects.graph.elementwise.base import ElementwiseOp, UnaryOp
from tcopt.dialects.graph.movement.shape import BroadcastToOp, ReshapeOp
from tcopt.passes.canonicalize import EraseDead, Fold
from tcopt.support.ir.rewriting import rewrite


class DropBroadcast(RewritePattern):
    """Replace a broadcast operand by its source if numpy broadcasting gives the same result.

        %0 = graph.broadcast_to %b : tensor<8x16xf32>
        %1 = graph.add %x, %0 : tensor<8x16xf32>
    ->
        %1 = graph.add %x, %b : tensor<8x16xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ElementwiseOp, rewriter: PatternRewriter) -> None:
        if len(op.operands) < 2:
            return
        for place, operand in enumerate(op.operands):
            if isinstance(operand.owner, BroadcastToOp):
                sources = list(op.operands)
                sources[place] = operand.owner.x
                if _broadcast(sources) == op.shape:
                    rewriter.replace(op, _clone_with(op, sources))
                    return


def _broadcast(values: list[SSAValue]) -> tuple[int, ...] | None:
    try:
        return broadcast_shapes(*(shape_of(value) for value in values))
    except VerifyException:
        return None


def _clone_with(op: GraphOp, operands: list[SSAValue]) -> Operation:
    return op.clone(dict(zip(op.operands, operands, strict=True)))


class SinkReshape(RewritePattern):
    """Move a unary op before the reshape of a contraction's result, so that the two fuse.

        %1 = graph.reshape %conv : tensor<8x16xf32>
        %2 = graph.relu %1 : tensor<8x16xf32>
    ->
        %1 = graph.relu %conv : tensor<1x8x4x4xf32>
        %2 = graph.reshape %1 : tensor<8x16xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UnaryOp, rewriter: PatternRewriter) -> None:
        view = op.x.owner
        if not isinstance(view, ReshapeOp):
            return
        heavy = view.x.owner
        if not isinstance(heavy, GraphOp) or not view.x.has_one_use():
            return
        if heavy.fusion_kind is not FusionKind.COMPLEX_OUT_FUSABLE or not op.x.has_one_use():
            return
        new = type(op).create(
            operands=[view.x],
            properties=op.properties,
            attributes=op.attributes,
            result_types=[view.x.type],
        )
        after = ReshapeOp(new, op.shape)
        after.location = view.location
        rewriter.replace(op, [new, after])


@dataclass(frozen=True)
class FoldShapesPass(ModulePass):
    """Simplify chains of shape operators, and move them so that they do not prevent fusion.

    - Chains of reshapes, transposes, broadcasts and slices become one; a transpose that moves only
      unit axes becomes a reshape.
    - A broadcast that an elementwise operator does implicitly is dropped.
    - A reshape between a compute-bound operator and a unary one moves after the unary one.

        %0 = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %1 = graph.reshape %0 : tensor<8x16xf32>
        %2 = graph.relu %1 : tensor<8x16xf32>
        %3 = graph.broadcast_to %b : tensor<8x16xf32>
        %4 = graph.add %2, %3 : tensor<8x16xf32>
    ->
        %0 = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %1 = graph.relu %0 : tensor<1x8x4x4xf32>
        %2 = graph.reshape %1 : tensor<8x16xf32>
        %4 = graph.add %2, %b : tensor<8x16xf32>
    """

    name = "fold-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [EraseDead(), Fold(ctx), Simplify(), DropBroadcast(), SinkReshape()])
