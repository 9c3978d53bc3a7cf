"""LLVM types of values, and their sizes in memory.

index is i64 and bf16 is i16 (see `ops/casts.py`). A vector of any rank is one flat LLVM vector in
row-major order, so every elementwise op, shuffle and cast has a single form. i1 is stored as one
byte.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute

from tcopt.support.data.dtypes import is_narrow
from tcopt.support.errors import UnsupportedError
from tcopt.support.memo import memo, on_clear


class LlvmType(str):
    """The text of an LLVM type, with its structure.

    Attributes:
        element: the type of a lane; the type itself if it is not a vector.
        lanes: the number of lanes, 0 if it is not a vector.
        mangled: its name in intrinsics: `v16f32` for `<16 x float>`, `p0` for `ptr`.
    """

    __slots__ = ("element", "lanes", "mangled")

    element: LlvmType
    lanes: int
    mangled: str

    @staticmethod
    def scalar(spelling: str, mangled: str = "") -> LlvmType:
        """Return a scalar type; `mangled` defaults to its spelling."""
        made = LlvmType(spelling)
        made.element, made.lanes, made.mangled = made, 0, mangled or spelling
        return made

    @staticmethod
    @memo(4096)
    def vector(element: LlvmType, lanes: int) -> LlvmType:
        """Return a vector type; for 0 lanes, the element type itself."""
        if not lanes:
            return element
        made = LlvmType(f"<{lanes} x {element}>")
        made.element, made.lanes, made.mangled = element, lanes, f"v{lanes}{element.mangled}"
        return made

    def of(self, element: LlvmType) -> LlvmType:
        """Return the type with the same number of lanes and another element type."""
        return LlvmType.vector(element, self.lanes)


@memo(256)
def integer(width: int) -> LlvmType:
    """Return the integer type of this width."""
    return LlvmType.scalar(f"i{width}")


@memo(16)
def pointer_in(space: int = 0) -> LlvmType:
    """Return the type of pointers into an address space."""
    return LlvmType.scalar(f"ptr addrspace({space})" if space else "ptr", f"p{space}")


I1, I8, I16, I32, I64 = (integer(width) for width in (1, 8, 16, 32, 64))
HALF = LlvmType.scalar("half", "f16")
BFLOAT = LlvmType.scalar("bfloat", "bf16")
FLOAT = LlvmType.scalar("float", "f32")
DOUBLE = LlvmType.scalar("double", "f64")
PTR = pointer_in()

_FLOATS: dict[type[Attribute], tuple[LlvmType, int]] = {
    Float16Type: (HALF, 2),
    BFloat16Type: (I16, 2),
    Float32Type: (FLOAT, 4),
    Float64Type: (DOUBLE, 8),
}


_T = TypeVar("_T")
_CACHE_LIMIT = 100_000


def _once_an_object(compute: Callable[[Attribute], _T]) -> Callable[[Attribute], _T]:
    """Cache a function of an attribute by the identity of the attribute.

    Hashing an attribute by value costs more than most of these functions, and IR shares objects.
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
        # The entry keeps the attribute alive, so its identity is not reused.
        known[id(attribute)] = (attribute, result)
        return result

    lookup.__doc__ = compute.__doc__
    return lookup


@_once_an_object
def llvm_type(type: Attribute) -> LlvmType:
    """Return the LLVM type of a value: `vector<2x8xf32>` is `<16 x float>`, a memref is `ptr`."""
    if isinstance(type, VectorType):
        return LlvmType.vector(llvm_type(type.element_type), lanes(type))
    if isinstance(type, IntegerType):
        return integer(type.width.data)
    if isinstance(type, IndexType):
        return I64
    if type.__class__ in _FLOATS:
        return _FLOATS[type.__class__][0]
    if isinstance(type, MemRefType):
        return PTR
    raise UnsupportedError(f"values of type {type} have no LLVM type")


@_once_an_object
def memory_type(type: Attribute) -> LlvmType:
    """Return the LLVM type with which a value is loaded and stored: i1 becomes i8."""
    return llvm_type(type).of(I8) if is_bool(type) else llvm_type(type)


@_once_an_object
def is_bool(type: Attribute) -> bool:
    """Whether the type is i1 or a vector of i1."""
    element = element_of(type)
    return isinstance(element, IntegerType) and element.width.data == 1


def element_of(type: Attribute) -> Attribute:
    """Return the element type of a vector or memref; any other type is returned as it is."""
    return type.element_type if isinstance(type, VectorType | MemRefType) else type


@_once_an_object
def lanes(type: Attribute) -> int:
    """Return the number of elements of a vector, 0 for a scalar."""
    return prod(type.get_shape()) if isinstance(type, VectorType) else 0


@_once_an_object
def byte_size(element: Attribute) -> int:
    """Return the size of an element in memory in bytes.

    Raises UnsupportedError for integers of other widths.
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
    if element.__class__ in _FLOATS:
        return _FLOATS[element.__class__][1]
    raise UnsupportedError(f"elements of type {element} cannot be stored in memory")
