"""C spellings of types and constants.

index is a 32-bit `int`, because no buffer has 2^31 elements. i1 is `bool`, and one byte in memory.
Vectors have 2, 3, 4, 8 or 16 elements, as in OpenCL. A device without arithmetic on `half` stores
`half` and computes in `float`. All devices store bf16 as `ushort` and compute in `float`.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import (
    BFloat16Type,
    FixedBitwidthType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    Signedness,
    VectorType,
    f32,
    i1,
)
from xdsl.ir import Attribute

from tcopt.support.errors import UnsupportedError

_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}
_LANES = (2, 3, 4, 8, 16)


def scalar_type(type: Attribute) -> str:
    """Return the C type of a scalar value.

    Raises:
        UnsupportedError: OpenCL C has no such type.
    """
    match type:
        case IndexType():
            return "int"
        case Float16Type():
            return "half"
        case Float32Type():
            return "float"
        case Float64Type():
            return "double"
        case IntegerType() if type.width.data == 1:
            return "bool"
        case IntegerType() if type.width.data in _INTEGERS:
            sign = "u" if type.signedness.data is Signedness.UNSIGNED else ""
            return sign + _INTEGERS[type.width.data]
        case _:
            raise UnsupportedError(f"OpenCL C has no form for values of type {type}")


def value_type(type: Attribute) -> str:
    """Return the C type of a value: `vector<4xf32>` is `float4`."""
    if not isinstance(type, VectorType):
        return scalar_type(type)
    return f"{scalar_type(type.element_type)}{lanes(type)}"


def lanes(type: Attribute) -> int:
    """Return the number of elements of a vector type.

    Raises:
        UnsupportedError: OpenCL C has no vectors of this length.
    """
    assert isinstance(type, VectorType)
    count = math.prod(type.get_shape())
    if count not in _LANES:
        raise UnsupportedError(f"OpenCL C has no vectors of {count} elements")
    return count


def is_mask(type: Attribute) -> bool:
    """Whether a type is a vector of i1."""
    return isinstance(type, VectorType) and type.element_type == i1


def mask_type(bits: int, count: int) -> str:
    """Return the type of a comparison of vectors: an integer vector with -1 or 0 in each lane."""
    return f"{_INTEGERS[bits]}{count}"


def mask_bits(type: Attribute) -> int:
    """Return the element width of the mask that a comparison of values of a type returns."""
    element = type.element_type if isinstance(type, VectorType) else type
    if isinstance(element, IndexType):
        return 32
    assert isinstance(element, FixedBitwidthType)
    return element.bitwidth


def without_half(type: Attribute) -> Attribute:
    """Return the type in which a device without arithmetic on `half` computes."""
    if isinstance(type, Float16Type):
        return f32
    if isinstance(type, VectorType) and isinstance(type.element_type, Float16Type):
        return VectorType(f32, type.get_shape())
    return type


def without_bf16(type: Attribute) -> Attribute:
    """The type that values are computed in, as OpenCL C has no bf16."""
    if isinstance(type, BFloat16Type):
        return f32
    if isinstance(type, VectorType) and isinstance(type.element_type, BFloat16Type):
        return VectorType(f32, type.get_shape())
    return type


def memory_type(type: Attribute) -> str:
    """Return the C type of a buffer's element."""
    assert isinstance(type, MemRefType)
    if isinstance(type.element_type, BFloat16Type):
        return "ushort"
    name = scalar_type(type.element_type)
    return "uchar" if name == "bool" else name


def unsigned(name: str) -> str:
    """Return the unsigned version of an integer type."""
    return name if name.startswith("u") or name == "bool" else f"u{name}"


def float_literal(value: float, type: Attribute) -> str:
    """Return an exact floating-point literal."""
    suffix = "" if isinstance(type, Float64Type) else "f"
    if isinstance(type, Float16Type):
        if math.isnan(value) or math.isinf(value):
            return f"(half){float_literal(value, f32)}"
        suffix = "h"
    if math.isnan(value):
        return "NAN" if suffix else "nan((ulong)0)"
    if math.isinf(value):
        infinity = "INFINITY" if suffix else "(double)INFINITY"
        return infinity if value > 0 else f"-{infinity}"
    if (
        value == int(value)
        and abs(value) < 1e6
        and not (value == 0 and math.copysign(1, value) < 0)
    ):
        return f"{int(value)}.0{suffix}"
    short = f"{value:.9g}" if suffix else repr(value)
    if "." not in short and "e" not in short:
        short += ".0"
    return short + suffix


def integer_literal(value: int, type: Attribute) -> str:
    """Return an integer literal."""
    if isinstance(type, IntegerType) and type.width.data == 1:
        return "true" if value else "false"
    if isinstance(type, IntegerType) and type.width.data == 64:
        return "(-9223372036854775807L - 1)" if value == -(1 << 63) else f"{value}L"
    return "(-2147483647 - 1)" if value == -(1 << 31) else str(value)
