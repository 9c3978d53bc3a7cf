"""Types below 16 bits, stored as codes of one byte each, and the conversions from and to them.

No processor computes in these types: values are moved as bytes and converted. A code occupies the
low bits of its byte: an integer in two's complement, or a float's sign, exponent and mantissa.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan
from typing import Protocol

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IntegerType,
    f32,
    f64,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.te.dtypes import ExpressionError, is_float, is_unsigned
from tcopt.support.data.dtypes import is_narrow, numpy_dtype


class ScalarEmitter(Protocol):
    """Builder for conversions; see `scalar.Emitter`."""

    def add(self, op: Operation) -> SSAValue: ...
    def constant(self, value: float, dtype: Attribute) -> SSAValue: ...
    def compare(self, predicate: str, a: SSAValue, b: SSAValue, dtype: Attribute) -> SSAValue: ...
    def cast(self, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue: ...


@dataclass(frozen=True)
class _FloatFormat:
    """Encoding of a float type.

    Attributes:
        exponent, mantissa: the numbers of bits; `bias` is the exponent bias.
        greatest: the code of the largest finite value.
        beyond: the code of values that round to more than that.
        nan: the code of nan, without its sign.
        special: codes of non-finite values, with their values.
        signed: whether there is a sign bit; `has_minus_zero`: whether -0 exists.
    """

    exponent: int
    mantissa: int
    bias: int
    greatest: int
    beyond: int
    nan: int
    special: tuple[tuple[int, float], ...] = ()
    signed: bool = True
    has_minus_zero: bool = True

    @property
    def sign(self) -> int:
        """The position of the sign bit."""
        return self.exponent + self.mantissa


_E5M2_SPECIAL = ((0x7C, inf), (0x7D, nan), (0x7E, nan), (0x7F, nan))
_FLOATS: dict[type[Attribute], _FloatFormat] = {
    Float8E4M3FNType: _FloatFormat(4, 3, 7, 0x7E, 0x7F, 0x7F, ((0x7F, nan),)),
    Float8E5M2Type: _FloatFormat(5, 2, 15, 0x7B, 0x7C, 0x7E, _E5M2_SPECIAL),
    Float8E4M3FNUZType: _FloatFormat(4, 3, 8, 0x7F, 0x80, 0x80, has_minus_zero=False),
    Float8E5M2FNUZType: _FloatFormat(5, 2, 16, 0x7F, 0x80, 0x80, has_minus_zero=False),
    Float4E2M1FNType: _FloatFormat(2, 1, 1, 7, 7, 8),
    Float8E8M0FNUType: _FloatFormat(8, 0, 127, 0xFE, 0xFF, 0xFF, ((0xFF, nan),), signed=False),
}


def code_of(value: float, dtype: Attribute) -> int:
    """Return the code of a number after rounding; integers wrap around."""
    with np.errstate(all="ignore"):
        number = np.asarray(value if is_float(dtype) else int(value))
        return int(number.astype(numpy_dtype(dtype)).view(np.uint8))


def convert(e: ScalarEmitter, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
    """Convert `x` from `source` to `target`, at least one of which is narrow."""
    if is_narrow(source):
        between = f32 if is_float(source) else i8
        decode = _decode_float if is_float(source) else _decode_integer
        return e.cast(decode(e, x, source), between, target)
    if not is_float(target):
        return _encode_integer(e, x, source, target)
    format = _FLOATS[type(target)]
    if not format.signed:
        raise ExpressionError(
            f"conversion to {target} is not supported", hint="compute its exponent"
        )
    wide = source == f64 or (not is_float(source) and _width(source) > 16)
    between = f64 if wide else f32
    return _encode_float(e, e.cast(x, source, between), wide, format)


def _binary(
    e: ScalarEmitter, dtype: Attribute, kind: Callable[..., Operation]
) -> Callable[[SSAValue, int | SSAValue], SSAValue]:
    def apply(x: SSAValue, y: int | SSAValue) -> SSAValue:
        return e.add(kind(x, e.constant(y, dtype) if isinstance(y, int) else y))

    return apply


# Integers.


def _width(dtype: Attribute) -> int:
    """Return the bit width of an integer type."""
    assert isinstance(dtype, IntegerType)
    return dtype.bitwidth


def _decode_integer(e: ScalarEmitter, code: SSAValue, source: Attribute) -> SSAValue:
    """Decode to i8."""
    width = _width(source)
    bits = _binary(e, i8, arith.AndIOp)(code, (1 << width) - 1)
    if is_unsigned(source):
        return bits
    sign = 1 << (width - 1)
    return _binary(e, i8, arith.SubiOp)(_binary(e, i8, arith.XOrIOp)(bits, sign), sign)


def _encode_integer(
    e: ScalarEmitter, x: SSAValue, source: Attribute, target: Attribute
) -> SSAValue:
    """Encode the low bits of an integer, or of a float truncated to an integer."""
    if is_float(source):
        x, source = e.cast(x, source, i32), i32
    return _binary(e, i8, arith.AndIOp)(e.cast(x, source, i8), (1 << _width(target)) - 1)


# Floats.


def _decode_float(e: ScalarEmitter, code: SSAValue, source: Attribute) -> SSAValue:
    """Decode to f32, which represents every value exactly."""
    format = _FLOATS[type(source)]
    both, shift, add = (_binary(e, i32, k) for k in (arith.AndIOp, arith.ShLIOp, arith.AddiOp))
    code = both(e.cast(code, i8, i32), (2 << format.sign if format.signed else 256) - 1)
    rest = both(code, (1 << format.sign) - 1) if format.signed else code
    # Move the fields to their positions in f32 and adjust the exponent bias.
    moved = add(shift(rest, 23 - format.mantissa), (127 - format.bias) << 23)
    value = e.add(arith.BitcastOp(moved, f32))
    least = 2.0 ** (1 - format.bias - format.mantissa)
    if format.signed:
        count = e.cast(rest, i32, f32)
        small = e.add(arith.MulfOp(count, e.constant(least, f32)))
        is_small = e.compare("lt", rest, e.constant(1 << format.mantissa, i32), i32)
        value = e.add(SelectOp(is_small, small, value))
    else:
        is_least = e.compare("eq", rest, e.constant(0, i32), i32)
        value = e.add(SelectOp(is_least, e.constant(2.0**-127, f32), value))
    for special, number in format.special:
        is_special = e.compare("eq", rest, e.constant(special, i32), i32)
        value = e.add(SelectOp(is_special, e.constant(number, f32), value))
    if format.signed:
        negative = e.compare("ne", code, rest, i32)
        value = e.add(SelectOp(negative, e.add(arith.NegfOp(value)), value))
    if not format.has_minus_zero:
        is_nan = e.compare("eq", code, e.constant(format.nan, i32), i32)
        value = e.add(SelectOp(is_nan, e.constant(nan, f32), value))
    return value


def _encode_float(e: ScalarEmitter, x: SSAValue, wide: bool, format: _FloatFormat) -> SSAValue:
    """Encode an f32, or an f64 if `wide`, rounded to nearest, ties to even."""
    source, word, width, mantissa, bias = (
        (f64, i64, 64, 52, 1023) if wide else (f32, i32, 32, 23, 127)
    )
    both, right, add, sub = (
        _binary(e, word, k) for k in (arith.AndIOp, arith.ShRUIOp, arith.AddiOp, arith.SubiOp)
    )
    bits = e.add(arith.BitcastOp(x, word))
    magnitude = both(bits, (1 << (width - 1)) - 1)
    dropped = mantissa - format.mantissa
    # A carry out of the mantissa correctly increments the exponent.
    odd = both(right(magnitude, dropped), 1)
    rounded = add(add(magnitude, (1 << (dropped - 1)) - 1), odd)
    normal = sub(right(rounded, dropped), (bias - format.bias) << format.mantissa)
    # Subnormals: adding a number whose ulp is the smallest subnormal rounds to a multiple of it.
    exponent = 1 - format.bias - format.mantissa + mantissa
    anchor = (exponent + bias) << mantissa
    sum_ = arith.AddfOp(
        e.add(arith.BitcastOp(magnitude, source)), e.constant(2.0**exponent, source)
    )
    small = sub(e.add(arith.BitcastOp(e.add(sum_), word)), anchor)
    first = e.constant((1 - format.bias + bias) << mantissa, word)
    code = e.add(SelectOp(e.compare("lt", magnitude, first, word), small, normal))
    above = e.compare("gt", code, e.constant(format.greatest, word), word)
    code = e.add(SelectOp(above, e.constant(format.beyond, word), code))
    is_nan = e.compare("ne", x, x, source)
    code = e.add(SelectOp(is_nan, e.constant(format.nan, word), code))
    sign = both(right(bits, width - 1 - format.sign), 1 << format.sign)
    if format.has_minus_zero:
        code = e.add(arith.XOrIOp(code, sign))
    else:
        signed = e.add(arith.OrIOp(code, sign))
        is_zero = e.compare("eq", code, e.constant(0, word), word)
        code = e.add(SelectOp(is_zero, code, signed))
    return e.cast(code, word, i8)
