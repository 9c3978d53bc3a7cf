"""Operators on real values as operators on integers, each multiplied by a scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i16, i32

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.attributes import PoolKind, ReduceKind
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.types import element_type, shape_of, tensor
from tcopt.dialects.graph.elementwise.activation import ReluOp
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, MulOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.shape import MovementOp, ReshapeOp
from tcopt.dialects.graph.movement.slice import ConcatOp
from tcopt.dialects.graph.reduction.pool import PoolOp
from tcopt.dialects.graph.reduction.reduce import ReduceOp
from tcopt.passes.graph.precision.scaled import ScaledIntegers, ScaledOps
from tcopt.passes.graph.precision.shifted_sums import sum_of_shifted
from tcopt.support.registries.rule_table import OpFunction

on_integers: OpFunction[[Sequence[ScaledIntegers]], ScaledOps | None] = OpFunction(__name__, None)
"""The op on scaled integers (integers times a scale), computed on the integers.

None if the op has no such form, or the scales do not permit it. Integers are i16 or i32 and have no
zero point.
"""


@on_integers.rule_for(ContractionOp)
def contraction(op: ContractionOp, operands: Sequence[ScaledIntegers]) -> ScaledOps | None:
    """Return products of 16-bit integers summed in i32; the scales multiply.

    Data has one scale; weights have one scale, or one for each channel of the result.
    """
    data, weights = operands
    shape = _scale_shape(op, weights)
    if shape is None or not data.is_uniform:
        return None
    if any(element_type(x.integers) != i16 for x in operands):
        return None
    integers = type(op).create(
        operands=[x.integers for x in operands],
        result_types=[tensor(op.shape, i32)],
        properties={**op.properties, "result_element": i32},
    )
    laid = ReshapeOp(weights.scale, shape)
    one = ReshapeOp(data.scale, ())
    return ScaledOps([integers], [laid, one, MulOp(laid, one)])


def _scale_shape(op: ContractionOp, weights: ScaledIntegers) -> list[int] | None:
    """Return the shape in which weight scales apply to the result; None if they vary along a summed
    axis."""
    if weights.is_uniform:
        return []
    linear, shape = op.linear_weight(), shape_of(weights.scale)
    rank = len(shape_of(weights.integers))
    if linear is None or rank - len(shape) > linear.axis:
        return None
    axis = linear.axis - rank
    if any(n != 1 for index, n in enumerate(shape) if index - len(shape) != axis):
        return None
    result = [1] * len(op.shape)
    result[linear.channel] = shape[axis]
    return result


@on_integers.rule_for(PoolOp)
def pool(op: PoolOp, operands: Sequence[ScaledIntegers]) -> ScaledOps | None:
    """Return a maximum of the integers, which commutes with scaling by a positive factor."""
    (x,) = operands
    if op.kind.data is not PoolKind.MAX or not x.is_uniform:
        return None
    return ScaledOps([op.on_elements(x.integers)])


@on_integers.rule_for(ReduceOp)
def reduce(op: ReduceOp, operands: Sequence[ScaledIntegers]) -> ScaledOps | None:
    """Return extrema of the integers; sums in i32; means as sums with the scale divided by the
    count."""
    (x,), kind = operands, op.kind.data
    if not x.is_uniform:
        return None
    if kind in (ReduceKind.MAX, ReduceKind.MIN):
        return ScaledOps([op.on_elements(x.integers)])
    if kind not in (ReduceKind.SUM, ReduceKind.MEAN):
        return None
    wide, axes = CastOp(x.integers, i32), op.axes.get_values()
    ops = [wide, ReduceOp(wide, kind="sum", axes=axes, keepdims=op.keepdims is not None)]
    if kind is ReduceKind.SUM:
        return ScaledOps(ops)
    part = ConstantOp.literal(np.float32(1 / max(op.count, 1)))
    return ScaledOps(ops, [part, MulOp(x.scale, part)])


@on_integers.rule_for(AddOp)
def add(op: AddOp, operands: Sequence[ScaledIntegers]) -> ScaledOps | None:
    """Return a sum of integers, if nothing is rounded: of 32-bit sums of equal scale, or of narrow
    integers whose scales are powers of two, shifted to the smaller scale."""
    lhs, rhs = operands
    wide = all(element_type(x.integers) == i32 for x in operands)
    if wide and lhs.scales_like(rhs):
        return ScaledOps([AddOp(lhs.integers, rhs.integers)])
    return sum_of_shifted(lhs, rhs)


@on_integers.rule_for(ReluOp)
def relu(op: ReluOp, operands: Sequence[ScaledIntegers]) -> ScaledOps | None:
    """Apply the op to the integers, which have the sign of the real values."""
    return ScaledOps([ReluOp(operands[0].integers)])


@on_integers.rule_for(MovementOp)
def movement(op: MovementOp, operands: Sequence[ScaledIntegers]) -> ScaledOps | None:
    """Move the integers, and the scales too unless there is only one."""
    (x,) = operands
    if x.is_uniform:
        return ScaledOps([op.on_elements(x.integers)])
    if shape_of(x.scale) != shape_of(x.integers):
        return None
    return ScaledOps([op.on_elements(x.integers)], [op.on_elements(x.scale)])


@on_integers.rule_for(ConcatOp)
def concat(op: ConcatOp, operands: Sequence[ScaledIntegers]) -> ScaledOps | None:
    """Return the concatenation of integers, for parts of one type and one scale."""
    first, *others = operands
    types = {element_type(part.integers) for part in operands}
    same = all(part.is_uniform and part.scales_like(first) for part in others)
    if len(types) > 1 or not first.is_uniform or not same:
        return None
    parts = [part.integers for part in operands]
    return ScaledOps([ConcatOp(parts, axis=op.axis.value.data)])
