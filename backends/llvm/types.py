"""LLVM spellings of types and constants.

index is i64, bf16 is i16 (see `ops/casts.py`). A vector of any rank is one flat LLVM vector in
row-major order, so every elementwise op, shuffle and cast has a single form. i1 lives in memory
as one byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute

from tcopt.support.dtypes import is_narrow, numpy_dtype
from tcopt.support.errors import UnsupportedError
from tcopt.support.memo import memo, on_clear

_FLOAT_NAMES: dict[type[Attribute], tuple[str, int]] = {
    Float16Type: ("half", 2),
    BFloat16Type: ("i16", 2),
    Float32Type: ("float", 4),
    Float64Type: ("double", 8),
}
_INTRINSIC_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


_T = TypeVar("_T")
_CACHE_LIMIT = 100_000


def _once_an_object(compute: Callable[[Attribute], _T]) -> Callable[[Attribute], _T]:
    """Cache a function of an attribute by the object's identity.

    Hashing an attribute by value costs more than most of these functions; IR shares objects.
    """
    known: dict[int, tuple[Attribute, _T]] = {}
    on_clear(known.clear)

    def lookup(attribute: Attribute) -> _T:
        entry = known.get(id(attribute))
        if entry is not None:
            return entry[1]
        if len(known) > _CACHE_LIMIT:
            known.clear()
        result = compute(attribute)
        # The entry keeps the attribute alive, so its identity is not used again.
        known[id(attribute)] = (attribute, result)
        return result

    lookup.__doc__ = compute.__doc__
    return lookup


@_once_an_object
def llvm_type(type: Attribute) -> str:
    """The LLVM type of a value: `vector<2x8xf32>` is `<16 x float>`, a memref is `ptr`."""
    if isinstance(type, VectorType):
        return f"<{lanes(type)} x {llvm_type(type.element_type)}>"
    if isinstance(type, IntegerType):
        return f"i{type.width.data}"
    if isinstance(type, IndexType):
        return "i64"
    if type.__class__ in _FLOAT_NAMES:
        return _FLOAT_NAMES[type.__class__][0]
    if isinstance(type, MemRefType):
        return "ptr"
    raise UnsupportedError(f"values of type {type} have no LLVM type")


@_once_an_object
def memory_type(type: Attribute) -> str:
    """The LLVM type by which a value is loaded and stored: i1 becomes i8."""
    if not is_bool(type):
        return llvm_type(type)
    return f"<{lanes(type)} x i8>" if lanes(type) else "i8"


@_once_an_object
def is_bool(type: Attribute) -> bool:
    """Whether the type is i1 or a vector of i1."""
    element = element_of(type)
    return isinstance(element, IntegerType) and element.width.data == 1


def element_of(type: Attribute) -> Attribute:
    """The element type of a vector or memref, and any other type itself."""
    return type.element_type if isinstance(type, VectorType | MemRefType) else type


@_once_an_object
def lanes(type: Attribute) -> int:
    """The number of elements of a vector, 0 for a scalar."""
    return prod(type.get_shape()) if isinstance(type, VectorType) else 0


@_once_an_object
def byte_size(element: Attribute) -> int:
    """Bytes an element takes in memory.

    Raises UnsupportedError for integers of odd widths.
    """
    if is_narrow(element):
        return 1
    if isinstance(element, IndexType):
        return 8
    if isinstance(element, IntegerType):
        width = element.width.data
        if width == 1:
            return 1
        if width in (8, 16, 32, 64):
            return width // 8
    if element.__class__ in _FLOAT_NAMES:
        return _FLOAT_NAMES[element.__class__][1]
    raise UnsupportedError(f"elements of type {element} cannot live in memory")


@memo(4096)
def intrinsic_suffix(llvm: str) -> str:
    """The mangling of an LLVM type in intrinsic names: `<16 x float>` is `v16f32`, a `ptr` `p0`."""
    if llvm.startswith("<"):
        count, _, element = llvm[1:-1].partition(" x ")
        return f"v{count}{intrinsic_suffix(element)}"
    if llvm.startswith("ptr"):
        return f"p{llvm.partition('(')[2].rstrip(')') or 0}"
    return _INTRINSIC_SUFFIX.get(llvm, llvm)


def float_constant(value: float, type: Attribute) -> str:
    """An LLVM float literal that denotes exactly `value` rounded to `type`."""
    with np.errstate(over="ignore"):
        if isinstance(type, Float16Type):
            return f"0xH{np.float16(value).view(np.uint16):04X}"
        if isinstance(type, BFloat16Type):
            bits = np.asarray(value, numpy_dtype(type)).view(np.uint16)
            return str(int(bits))
        if isinstance(type, Float32Type):
            value = float(np.float32(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@memo(4096)
def scalar_constant(attr: IntegerAttr | FloatAttr) -> str:
    """The LLVM literal of an integer or float attribute."""
    if isinstance(attr, FloatAttr):
        return float_constant(attr.value.data, attr.type)
    if attr.type == IntegerType(1):
        return "true" if attr.value.data & 1 else "false"
    return str(attr.value.data)


def splat(element: str, value: str, count: int) -> str:
    """A vector literal with one value in every lane."""
    if value in ("0", "false", "0x0000000000000000", "0xH0000"):
        return "zeroinitializer"
    return f"splat ({element} {value})"


@memo(256)
def dense_constant(attr: DenseIntOrFPElementsAttr) -> str:
    """The LLVM literal of a dense vector attribute."""
    element = attr.get_element_type()
    name = llvm_type(element)
    values = [_element_constant(v, element) for v in attr.get_values()]
    if attr.is_splat() or len(set(values)) == 1:
        return splat(name, values[0], len(values))
    return f"<{', '.join(f'{name} {v}' for v in values)}>"


def _element_constant(value: object, element: Attribute) -> str:
    if isinstance(element, IntegerType | IndexType):
        assert isinstance(value, int)
        return scalar_constant(IntegerAttr(value, element))
    assert isinstance(value, float)
    return float_constant(value, element)


def vector_literal(element: str, values: list[int]) -> str:
    """A vector literal of integers, `i32` or `i64` lanes and the like."""
    return f"<{', '.join(f'{element} {v}' for v in values)}>"
