"""Conversion of floats to integers: towards zero, saturating, and 0 for a NaN.

`arith.fptosi` and `arith.fptoui` are poison outside the integer's range, and results differ
between processors and even between lanes of one vector. Values are therefore clamped first, unless
their known range makes it unnecessary:

    %0 = arith.cmpf oeq, %x, %x : f32
    %1 = arith.select %0, %x, %zero : f32
    %2 = arith.maxnumf %1, %c-128 : f32
    %3 = arith.minnumf %2, %c127 : f32
    %4 = arith.fptosi %3 : f32 to i8
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.te.dtypes import is_unsigned
from tcopt.dialects.value_ranges import Interval
from tcopt.support.data.dtypes import numpy_dtype


class ScalarEmitter(Protocol):
    """The subset of `scalar.Emitter` that conversions need."""

    def add(self, op: Operation) -> SSAValue: ...
    def constant(self, value: float, dtype: Attribute) -> SSAValue: ...
    def compare(self, predicate: str, a: SSAValue, b: SSAValue, dtype: Attribute) -> SSAValue: ...


def integer_limits(dtype: IntegerType) -> tuple[int, int]:
    """Return the minimum and maximum of an integer type."""
    bits = dtype.bitwidth
    return (0, (1 << bits) - 1) if is_unsigned(dtype) else (-(1 << bits - 1), (1 << bits - 1) - 1)


def saturated(
    e: ScalarEmitter,
    x: SSAValue,
    source: AnyFloat,
    target: IntegerType,
    known: Interval,
    convert: Callable[[SSAValue], SSAValue],
) -> SSAValue:
    """Convert `x` of float type `source` to `target`, truncating and saturating.

    Args:
        known: the range of `x`.
        convert: converts a float whose truncated value is representable in `target`.
    """
    low, high = integer_limits(target)
    below, above = known.low <= low - 1, known.high >= high + 1
    top = _largest(high, source)
    value = x
    if known.nan and low < 0:
        is_number = e.compare("eq", x, x, source)
        value = e.add(SelectOp(is_number, value, e.constant(0, source)))
    if below or (known.nan and low == 0):
        # For an unsigned type the lower bound is 0, so maxnum also replaces a NaN.
        value = e.add(arith.MaxnumfOp(value, e.constant(low, source)))
    if above:
        value = e.add(arith.MinnumfOp(value, e.constant(top, source)))
    result = convert(value)
    if above and top != high:
        too_large = e.compare("ge", x, e.constant(high + 1, source), source)
        result = e.add(SelectOp(too_large, e.constant(high, target), result))
    return result


def _largest(high: int, source: AnyFloat) -> float:
    """Return the largest value of a float type that is at most `high`."""
    kind = numpy_dtype(source).type
    rounded = kind(high)
    return float(rounded if int(rounded) <= high else np.nextafter(rounded, kind(0)))
