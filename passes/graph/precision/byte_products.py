"""Products of two computed matrices of centred integers, on bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeGuard

from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.graph.binary import AddOp, MulOp, SubOp
from tcopt.dialects.graph.cast import CastOp
from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.reduce import ReduceOp
from tcopt.dialects.graph.shape import ReshapeOp
from tcopt.dialects.graph.types import element_type, shape_of
from tcopt.passes.graph.precision.byte_forms import ByteForm

FEWEST_ROWS = 8
"""Rows from which a matrix that is not in signed bytes in memory is worth making it so."""

Forms = tuple[ByteForm, ByteForm]


class Narrower(Protocol):
    """What edits a function for them."""

    def insert(self, op: GraphOp | Operation, before: Operation) -> SSAValue: ...
    def replace(self, op: GraphOp, value: SSAValue) -> None: ...
    def bytes_of(self, value: SSAValue, form: ByteForm) -> SSAValue: ...
    def shift(self, form: ByteForm, element: Attribute, before: Operation) -> SSAValue: ...


def is_product(op: Operation) -> TypeGuard[ContractionOp]:
    """Whether it multiplies matrices of 16-bit integers into sums of 32 bits."""
    return (
        isinstance(op, ContractionOp)
        and op.summed_axes is not None
        and op.sum_element() == i32
        and all(element_type(operand) == i16 for operand in op.operands)
        and all(len(shape_of(operand)) > 1 for operand in op.operands)
    )


def narrow_product(narrower: Narrower, op: ContractionOp, forms: Forms) -> None:
    """Multiply bytes, and take from the sums what the shifts of both sides add.

    With bytes p = a + s and q = b + t, a @ b = p @ q - s * columns(q) - t * (rows(p) - K * s),
    where rows and columns are the sums of a row of p and of a column of q.
    """
    left, right = (
        narrower.bytes_of(operand, form) for operand, form in zip(op.operands, forms, strict=True)
    )
    (new,) = op.on_shifted((left, right), 0)
    result = narrower.insert(new, op)
    axes = op.summed_axes
    assert axes is not None
    first, second = (None if form.is_centred else narrower.shift(form, i16, op) for form in forms)
    wide = [each and narrower.insert(CastOp(each, i32), op) for each in (first, second)]
    if wide[0] is not None:
        columns = _summed(narrower, op, right, axes[1], (1, -1))
        excess = narrower.insert(MulOp(columns, wide[0]), op)
        result = narrower.insert(SubOp(result, excess), op)
    if wide[1] is not None:
        rows = _summed(narrower, op, left, axes[0], (-1, 1))
        if wide[0] is not None:
            depth = shape_of(left)[axes[0]]
            count = narrower.insert(ConstantOp.literal(-depth, i32), op)
            less = narrower.insert(MulOp(wide[0], count), op)
            rows = narrower.insert(AddOp(rows, less), op)
        excess = narrower.insert(MulOp(rows, wide[1]), op)
        result = narrower.insert(SubOp(result, excess), op)
    result.name_hint = op.results[0].name_hint
    narrower.replace(op, result)


def _summed(
    narrower: Narrower, op: Operation, value: SSAValue, axis: int, shape: Sequence[int]
) -> SSAValue:
    """A matrix summed along one of its two axes, counted from the last, as a row or a column."""
    wide = narrower.insert(CastOp(value, i32), op)
    rank = len(shape_of(value))
    total = narrower.insert(ReduceOp(wide, kind="sum", axes=[rank + axis]), op)
    *lead, count = shape_of(total)
    extents = [count if extent < 0 else extent for extent in shape]
    assert math.prod(extents) == count
    return narrower.insert(ReshapeOp(total, (*lead, *extents)), op)
