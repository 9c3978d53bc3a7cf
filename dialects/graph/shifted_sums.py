"""Sums of integers whose scales are powers of two."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.cast import CastOp
from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.scaled import Scaled, ScaledOps
from tcopt.dialects.graph.shift import ShiftLeftOp
from tcopt.dialects.graph.types import element_type

_MOST_PLACES = 7
"""Sums of two numbers of 9 bits that are shifted so far are exact as floats of 32 bits, and whoever
needs real numbers gets these."""


def sum_of_shifted(
    lhs: Scaled, rhs: Scaled, add: Callable[[SSAValue, SSAValue], Operation]
) -> ScaledOps | None:
    """The sum of two narrow tensors, in 32 bits and of the smaller scale; None where scales are no
    powers of two.

    In floats the sum is exact too, so the same numbers are rounded afterwards.

    Args:
        add: makes the operator that adds.
    """
    exponents = [_exponent(each) for each in (lhs, rhs)]
    if None in exponents or any(element_type(x.integers) != i16 for x in (lhs, rhs)):
        return None
    least = min(n for n in exponents if n is not None)
    ops: list[Operation] = []
    terms: list[SSAValue] = []
    for each, exponent in zip((lhs, rhs), exponents, strict=True):
        assert exponent is not None
        if exponent - least > _MOST_PLACES:
            return None
        wide = CastOp(each.integers, i32)
        ops.append(wide)
        term = wide.results[0]
        if exponent > least:
            places = _literal(np.int32(exponent - least))
            shifted = ShiftLeftOp(term, places)
            ops += [places, shifted]
            term = shifted.results[0]
        terms.append(term)
    total = add(*terms)
    return ScaledOps([*ops, total], [_literal(np.float32(math.ldexp(1.0, least)))])


def _literal(value: np.generic) -> Operation:
    return ConstantOp.literal(np.asarray(value))


def _exponent(scaled: Scaled) -> int | None:
    """The power of two that all scales are."""
    known = scaled.known
    if known is None or known.size == 0 or known.min() != known.max() or not known.flat[0] > 0:
        return None
    fraction, exponent = math.frexp(float(known.flat[0]))
    return exponent - 1 if fraction == 0.5 else None
