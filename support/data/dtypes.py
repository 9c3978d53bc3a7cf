"""Conversion of element types to numpy dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.support.data.named_dtypes import named_dtype
from tcopt.support.errors import UnsupportedError
from tcopt.support.memo import memo

_FLOATS: dict[type[Attribute], Any] = {
    Float16Type: np.float16,
    Float32Type: np.float32,
    Float64Type: np.float64,
}

_EXTENSIONS: dict[type[Attribute], str] = {
    BFloat16Type: "bfloat16",
    Float8E4M3FNType: "float8_e4m3fn",
    Float8E4M3FNUZType: "float8_e4m3fnuz",
    Float8E5M2Type: "float8_e5m2",
    Float8E5M2FNUZType: "float8_e5m2fnuz",
    Float8E8M0FNUType: "float8_e8m0fnu",
    Float4E2M1FNType: "float4_e2m1fn",
}
_NARROW_FLOATS = tuple(type_ for type_ in _EXTENSIONS if type_ is not BFloat16Type)


def is_narrow(element: Attribute) -> bool:
    """Whether elements have fewer than 16 bits and no processor computes with them: 4- and 8-bit
    floats, 2- and 4-bit integers. Each element is stored in one byte.
    """
    if isinstance(element, IntegerType):
        return element.bitwidth in (2, 4)
    return isinstance(element, _NARROW_FLOATS)


@memo(64)
def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """Return the numpy dtype of an element type; i1 is bool, index is int64.

    Raises:
        UnsupportedError: numpy has no such dtype.
    """
    if (found := _FLOATS.get(type(element))) is not None:
        return np.dtype(found)
    if (name := _EXTENSIONS.get(type(element))) is not None:
        return named_dtype(name)
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    if isa(element, IntegerType):
        width = element.width.data
        if width == 1:
            return np.dtype(np.bool_)
        if width in (2, 4, 8, 16, 32, 64):
            prefix = "u" if element.signedness.data is Signedness.UNSIGNED else ""
            return named_dtype(f"{prefix}int{width}")
    raise UnsupportedError(f"numpy has no arrays of {element}")
