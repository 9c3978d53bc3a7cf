"""Sums of integers whose scales are powers of two."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.types import element_type
from tcopt.dialects.graph.elementwise.arithmetic import AddOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.elementwise.shift import ShiftLeftOp
from tcopt.passes.graph.precision.scaled import ScaledIntegers, ScaledOps

_MOST_PLACES = 7
"""Maximum shift for which sums of two 9-bit integers are exact in 32-bit floats, in case real
values are needed."""


def sum_of_shifted(lhs: ScaledIntegers, rhs: ScaledIntegers) -> ScaledOps | None:
    """Return the sum of two narrow tensors, in 32 bits at the smaller scale.

    None unless scales are powers of two. The same sum would be exact in floats, so subsequent
    rounding gives equal results.
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
    total = AddOp(*terms)
    return ScaledOps([*ops, total], [_literal(np.float32(math.ldexp(1.0, least)))])


def _literal(value: np.generic) -> Operation:
    return ConstantOp.literal(np.asarray(value))


def _exponent(scaled: ScaledIntegers) -> int | None:
    """Return the exponent of the scale, if all scales are the same power of two; else None."""
    known = scaled.known
    if known is None or known.size == 0 or known.min() != known.max() or not known.flat[0] > 0:
        return None
    fraction, exponent = math.frexp(float(known.flat[0]))
    return exponent - 1 if fraction == 0.5 else None
