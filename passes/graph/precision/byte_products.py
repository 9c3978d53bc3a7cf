"""Products of two computed matrices of centred integers, computed on bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeGuard

from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.contraction.matmul import MatmulOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, MulOp, SubOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.reduction.reduce import ReduceOp
from tcopt.passes.graph.precision.byte_forms import ByteForm
from tcopt.passes.graph.precision.shifted_data import on_shifted
from tcopt.support.registries.rule_table import OpFunction

FEWEST_ROWS = 8
"""Minimum rows of a product for which converting a matrix to signed bytes pays off."""

Forms = tuple[ByteForm, ByteForm]


summed_axes: OpFunction[[], tuple[int, int] | None] = OpFunction(__name__, None)
"""The contracted axes of the data and weights of a matrix product, as negative indices; None for
other ops."""


@summed_axes.rule_for(MatmulOp)
def _matmul(op: MatmulOp) -> tuple[int, int]:
    return -1 if op.transpose_a is None else -2, -2 if op.transpose_b is None else -1


class Narrower(Protocol):
    """Interface to edit the function that contains the products."""

    def insert(self, op: GraphOp | Operation, before: Operation) -> SSAValue: ...
    def replace(self, op: GraphOp, value: SSAValue) -> None: ...
    def bytes_of(self, value: SSAValue, form: ByteForm) -> SSAValue: ...
    def shift(self, form: ByteForm, element: Attribute, before: Operation) -> SSAValue: ...


def is_product(op: Operation) -> TypeGuard[ContractionOp]:
    """Whether an op multiplies matrices of 16-bit integers with 32-bit sums."""
    return (
        isinstance(op, ContractionOp)
        and summed_axes(op) is not None
        and op.sum_element() == i32
        and all(element_type(operand) == i16 for operand in op.operands)
        and all(len(shape_of(operand)) > 1 for operand in op.operands)
    )


def narrow_product(narrower: Narrower, op: ContractionOp, forms: Forms) -> None:
    """Multiply bytes, and subtract the contribution of both operands' shifts from the sums.

    With bytes p = a + s and q = b + t, a @ b = p @ q - s * columns(q) - t * (rows(p) - K * s),
    where rows(p) are the sums of the rows of p, and columns(q) those of the columns of q.
    """
    left, right = (
        narrower.bytes_of(operand, form) for operand, form in zip(op.operands, forms, strict=True)
    )
    (new,) = on_shifted(op, (left, right), 0)
    result = narrower.insert(new, op)
    axes = summed_axes(op)
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
    """Return the sums of a matrix along one of its last two axes, as a row or a column."""
    wide = narrower.insert(CastOp(value, i32), op)
    rank = len(shape_of(value))
    total = narrower.insert(ReduceOp(wide, kind="sum", axes=[rank + axis]), op)
    *lead, count = shape_of(total)
    extents = [count if extent < 0 else extent for extent in shape]
    assert math.prod(extents) == count
    return narrower.insert(ReshapeOp(total, (*lead, *extents)), op)
