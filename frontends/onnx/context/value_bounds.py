"""Bounds of the integers that a model computes, from its clamps, shapes and index types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.attributes import ReduceKind
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.size_values import SizesOp
from tcopt.dialects.graph.core.types import is_float, shape_of, type_of
from tcopt.dialects.graph.movement.shape import MovementOp
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.sizes import lower_bound, upper_bound
from tcopt.support.registries.rule_table import OpFunction

Bounds = tuple[float, float]
"""Inclusive bounds of all elements of a tensor; infinite if unknown."""

ANY: Bounds = (-math.inf, math.inf)

_MOST_STEPS = 32
"""Number of ops in a row that are followed."""

bounds_of_op: OpFunction[[Sequence[Bounds]], Bounds] = OpFunction(__name__, ANY)
"""Bounds of an op's result, given the bounds of its operands."""


def value_bounds(
    value: SSAValue, known: Callable[[SSAValue], NDArray[Any] | None], steps: int = _MOST_STEPS
) -> Bounds:
    """Return bounds of the elements of a tensor of numbers.

    Args:
        known: returns the numbers or sizes of a value that is known during import, else None.
    """
    array = known(value)
    if array is not None and array.size and array.dtype.kind in "iufO":
        return _of_array(array)
    op = value.owner
    if not isinstance(op, GraphOp) or steps == 0:
        return ANY
    return bounds_of_op(op, [value_bounds(each, known, steps - 1) for each in op.operands])


def whole_range(bounds: Bounds, low: int, high: int) -> Range:
    """Return the integers from `low` to `high` that are within bounds."""
    least, most = bounds
    return max(low, math.ceil(max(least, low))), math.floor(min(most, high))


def _of_array(array: NDArray[Any]) -> Bounds:
    if array.dtype != object:
        least, most = float(array.min()), float(array.max())
        return ANY if math.isnan(least) or math.isnan(most) else (least, most)
    return min(map(lower_bound, array.flat)), max(map(upper_bound, array.flat))


def _times(bounds: Bounds, other: Bounds) -> Bounds:
    # The product of 0 and an unknown finite number is 0.
    products = [0.0 if 0 in (a, b) else a * b for a in bounds for b in other]
    return min(products), max(products)


@bounds_of_op.rule_for(graph.MinOp)
def _min(op: graph.MinOp, operands: Sequence[Bounds]) -> Bounds:
    return min(a for a, _ in operands), min(b for _, b in operands)


@bounds_of_op.rule_for(graph.MaxOp)
def _max(op: graph.MaxOp, operands: Sequence[Bounds]) -> Bounds:
    return max(a for a, _ in operands), max(b for _, b in operands)


@bounds_of_op.rule_for(graph.ClipOp)
def _clip(op: graph.ClipOp, operands: Sequence[Bounds]) -> Bounds:
    ((least, most),) = operands
    if op.min is not None:
        least, most = max(least, op.min.value.data), max(most, op.min.value.data)
    if op.max is not None:
        least, most = min(least, op.max.value.data), min(most, op.max.value.data)
    return least, most


@bounds_of_op.rule_for(graph.CastOp)
def _cast(op: graph.CastOp, operands: Sequence[Bounds]) -> Bounds:
    ((least, most),) = operands
    if is_float(type_of(op.results[0]).element_type):
        return least, most
    # Integers are rounded towards zero.
    return (
        math.trunc(least) if math.isfinite(least) else least,
        math.trunc(most) if math.isfinite(most) else most,
    )


@bounds_of_op.rule_for(graph.RoundOp, graph.FloorOp, graph.CeilOp)
def _round(op: GraphOp, operands: Sequence[Bounds]) -> Bounds:
    ((least, most),) = operands
    return (
        math.floor(least) if math.isfinite(least) else least,
        math.ceil(most) if math.isfinite(most) else most,
    )


@bounds_of_op.rule_for(MovementOp, graph.ConcatOp, graph.SliceOp)
def _union(op: GraphOp, operands: Sequence[Bounds]) -> Bounds:
    return min(a for a, _ in operands), max(b for _, b in operands)


@bounds_of_op.rule_for(graph.AddOp)
def _sum(op: graph.AddOp, operands: Sequence[Bounds]) -> Bounds:
    return sum(a for a, _ in operands), sum(b for _, b in operands)


@bounds_of_op.rule_for(graph.SubOp)
def _difference(op: graph.SubOp, operands: Sequence[Bounds]) -> Bounds:
    (a, b), (c, d) = operands
    return a - d, b - c


@bounds_of_op.rule_for(graph.MulOp)
def _product(op: graph.MulOp, operands: Sequence[Bounds]) -> Bounds:
    return _times(*operands)


@bounds_of_op.rule_for(graph.ReduceOp)
def _reduce(op: graph.ReduceOp, operands: Sequence[Bounds]) -> Bounds:
    (found,) = operands
    shape = shape_of(op.x)
    count = math.prod(shape[axis] for axis in op.axes.get_values())
    match op.kind.data:
        case ReduceKind.MAX | ReduceKind.MIN | ReduceKind.MEAN if lower_bound(count) > 0:
            return found
        case ReduceKind.SUM:
            return _times(found, (lower_bound(count), upper_bound(count)))
        case _:
            return ANY


@bounds_of_op.rule_for(graph.ArgReduceOp)
def _index(op: graph.ArgReduceOp, operands: Sequence[Bounds]) -> Bounds:
    return 0, max(upper_bound(shape_of(op.x)[op.axis.value.data]) - 1, 0)


@bounds_of_op.rule_for(SizesOp)
def _sizes(op: SizesOp, operands: Sequence[Bounds]) -> Bounds:
    return _of_array(np.array(op.values.extents, object))
