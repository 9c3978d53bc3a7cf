"""Sizes of buffers in bytes."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

_INDEX_BITS = 64


def memref_bytes(type_: Attribute) -> int:
    """Return the size of a memref's elements in bytes; i1 takes one byte, index eight."""
    assert isa(type_, MemRefType)
    element = type_.get_element_type()
    bits = element.bitwidth if isinstance(element, FixedBitwidthType) else _INDEX_BITS
    return prod(type_.get_shape()) * ((bits + 7) // 8)
