"""Layouts of values in the blocks that an accelerator loads and stores."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.layout import Layout, LayoutTransformOp
from tcopt.dialects.graph.movement.shape import ReshapeOp


def laid_back(after: Sequence[GraphOp], stored: SSAValue) -> list[GraphOp]:
    """Apply layout and reshape ops to a stored value of another element type."""
    made: list[GraphOp] = []
    for each in after:
        made.append(each.on_elements(made[-1].results[0] if made else stored))
    return made


def laid_out(after: Sequence[GraphOp], value: SSAValue) -> list[GraphOp]:
    """Invert layout and reshape ops: convert a value to the layout of their operand."""
    made: list[GraphOp] = []
    for each in reversed(after):
        shape = shape_of(each.operands[0])
        if isinstance(each, LayoutTransformOp):
            src, dst = each.dst.data, each.src.data
            made.append(LayoutTransformOp(value, src=src, dst=dst, shape=shape))
        else:
            made.append(ReshapeOp(value, shape))
        value = made[-1].results[0]
    return made


def layout_of(ops: Sequence[Operation]) -> LayoutTransformOp | None:
    """Return the first layout transform of some ops, or None."""
    return next((op for op in ops if isinstance(op, LayoutTransformOp)), None)


def lies_as(stored: LayoutTransformOp, wanted: LayoutTransformOp) -> bool:
    """Whether the blocks that one layout transform reads are those that another one produces, up to
    reshapes; block padding may differ.

    Dimensions of one element do not affect the layout in memory and are ignored.
    """
    (blocks, plain), (goal_plain, goal) = stored.layouts, wanted.layouts
    mine = _order(blocks, shape_of(stored.x), plain, stored.shape)
    return mine == _order(goal, wanted.shape, goal_plain, shape_of(wanted.x))


def _order(
    blocks: Layout, stored: Sequence[int], plain: Layout, shape: Sequence[int]
) -> tuple[list[int], list[tuple[int, bool, int]]]:
    """Return the extents above 1, and for each axis above 1 of the stored value: the index of its
    dimension, whether it is a block, and its extent; -1 is the padding of a dimension of one
    element."""
    letters = [letter for (letter, _), extent in zip(plain.parts, shape, strict=True) if extent > 1]
    axes = [
        (letters.index(letter) if letter in letters else -1, bool(block), extent)
        for (letter, block), extent in zip(blocks.parts, stored, strict=True)
        if extent > 1
    ]
    return [extent for extent in shape if extent > 1], axes


def plain_source(value: SSAValue) -> SSAValue:
    """Return the source of a value before reshapes and casts between integers of 8 bits or more."""
    owner: Operation | object = value.owner
    while isinstance(owner, ReshapeOp) or (
        isinstance(owner, CastOp) and _is_wide(value) and _is_wide(owner.x)
    ):
        value = owner.x
        owner = value.owner
    return value


def _is_wide(value: SSAValue) -> bool:
    element = element_type(value)
    return isinstance(element, IntegerType) and element.bitwidth >= 8
