"""Element types of tensor expressions, by name or as attributes."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.support.errors import TcoptError

DType: TypeAlias = "str | Attribute"


class ExpressionError(TcoptError):
    """An invalid tensor expression."""

    code = "bad-expression"


_DTYPES: dict[str, Attribute] = {
    "f16": f16,
    "bf16": bf16,
    "f32": f32,
    "f64": f64,
    "i1": i1,
    "bool": i1,
    "i8": i8,
    "i16": i16,
    "i32": i32,
    "i64": i64,
    **{f"ui{bits}": IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64)},
}


def element_type(dtype: DType) -> Attribute:
    """Return the element type named by `"f32"`, `"ui8"`, ...; an attribute is returned as it is."""
    if isinstance(dtype, Attribute):
        if not isa(dtype, AnyFloat | IntegerType):
            raise ExpressionError(f"{dtype} is not an element type")
        return dtype
    if dtype not in _DTYPES:
        raise ExpressionError(f"unknown dtype '{dtype}'", hint=f"use one of {', '.join(_DTYPES)}")
    return _DTYPES[dtype]


def is_float(dtype: Attribute) -> bool:
    """Whether a dtype is a floating-point type."""
    return isa(dtype, AnyFloat)


def is_unsigned(dtype: Attribute) -> bool:
    """Whether a dtype is an unsigned integer type, i1 included."""
    return dtype == i1 or (isa(dtype, IntegerType) and dtype.signedness.data is Signedness.UNSIGNED)
