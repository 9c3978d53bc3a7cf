"""Motion of concatenations after the elementwise ops that use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.core.constant import ConstantOp, ConstantValues
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.slice import ConcatOp, SliceOp
from tcopt.support.ir.rewriting import rewrite


class SinkConcat(RewritePattern):
    """Apply an elementwise op to the parts of a concatenation in memory.

        %y = graph.concat %c, %z {axis = 1} : tensor<1x12x4x4xf32>
        %r = graph.relu %y : tensor<1x12x4x4xf32>
    ->
        %0 = graph.relu %c : tensor<1x8x4x4xf32>
        %1 = graph.relu %z : tensor<1x4x4x4xf32>
        %r = graph.concat %0, %1 {axis = 1} : tensor<1x12x4x4xf32>
    """

    def __init__(self) -> None:
        self.constants = ConstantValues()

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOp, rewriter: PatternRewriter) -> None:
        if not op.is_elementwise or len(op.results) != 1:
            return
        wholes = [value for value in op.operands if _is_sinkable(value, op)]
        if len(wholes) != 1:
            return
        (whole,) = wholes
        concat = whole.owner
        assert isinstance(concat, ConcatOp)
        axis = concat.axis.value.data
        others = [value for value in op.operands if value is not whole]
        # Each part needs a known slice of the other operands, or broadcasts them.
        if not all(_extent(v, op, axis) == 1 or v in self.constants for v in others):
            return
        parts: list[GraphOp] = []
        start = 0
        for part in concat.inputs:
            parts.append(_on_part(op, whole, part, axis, start, rewriter))
            start += shape_of(part)[axis]
        rewriter.replace(op, ConcatOp(parts, axis=axis))
        rewriter.erase(concat)


def _is_sinkable(value: SSAValue, user: GraphOp) -> bool:
    """Whether a value is a concatenation in memory with one user, and a part is computed for it."""
    concat = value.owner
    if not isinstance(concat, ConcatOp) or not concat.is_joined:
        return False
    if len(list(value.uses)) != 1 or user.shape != shape_of(value):
        return False
    return any(_is_computed_for(part) for part in concat.inputs)


def _is_computed_for(part: SSAValue) -> bool:
    """Whether a part has one use, and its producer can fuse with elementwise ops."""
    op = part.owner
    if not isinstance(op, GraphOp) or isinstance(op, ConstantOp) or len(list(part.uses)) != 1:
        return False
    return not (op.is_view or op.is_joined)


def _extent(value: SSAValue, op: GraphOp, axis: int) -> int:
    """Return an operand's extent along an axis of the result."""
    shape = shape_of(value)
    own = axis - (len(op.shape) - len(shape))
    return shape[own] if own >= 0 else 1


def _on_part(
    op: GraphOp, whole: SSAValue, part: SSAValue, axis: int, start: int, rewriter: PatternRewriter
) -> GraphOp:
    """Return the op on one part of the concatenation, inserted before the op."""
    size = shape_of(part)[axis]
    operands: list[SSAValue] = []
    for value in op.operands:
        if value is whole:
            operands.append(part)
        elif _extent(value, op, axis) == 1:
            operands.append(value)
        else:
            shape = list(shape_of(value))
            own = axis - (len(op.shape) - len(shape))
            starts = [0] * len(shape)
            starts[own], shape[own] = start, size
            operands.append(rewriter.insert(SliceOp(value, starts, shape)).result)
    shape = list(op.shape)
    shape[axis] = size
    return rewriter.insert(op.with_operands(operands, shape))


@dataclass(frozen=True)
class SinkConcatPass(ModulePass):
    """Apply elementwise ops to the parts of a concatenation in memory instead of to the whole.

    The producer of a part can then apply them to its result in registers and store it directly to
    its offset in the whole. This is done if some part is used only by the concatenation, the
    concatenation has no other user, and the other operands are constant or the same for all parts.

        %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %y = graph.concat %c, %z {axis = 1} : tensor<1x12x4x4xf32>
        %r = graph.relu %y : tensor<1x12x4x4xf32>
    ->
        %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %0 = graph.relu %c : tensor<1x8x4x4xf32>
        %1 = graph.relu %z : tensor<1x4x4x4xf32>
        %r = graph.concat %0, %1 {axis = 1} : tensor<1x12x4x4xf32>
    """

    name = "sink-concat"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SinkConcat()])
