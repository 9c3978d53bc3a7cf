"""Sizes of buffers in bytes."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.dialects.size import extents_of
from tcopt.support.arithmetic.sizes import Extent, product

_INDEX_BITS = 64


def memref_bytes(type_: Attribute) -> int:
    """Return the size of a memref's memory in bytes; i1 takes one byte, index eight."""
    assert isa(type_, MemRefType)
    return prod(type_.get_shape()) * element_bytes(type_.get_element_type())


def live_bytes(type_: Attribute) -> Extent:
    """Return the size of a memref's elements in bytes."""
    assert isa(type_, MemRefType)
    return product(extents_of(type_)) * element_bytes(type_.get_element_type())


def element_bytes(element: Attribute) -> int:
    """Return the size of a memref's element in bytes."""
    bits = element.bitwidth if isinstance(element, FixedBitwidthType) else _INDEX_BITS
    return (bits + 7) // 8
