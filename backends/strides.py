"""Strides of buffers, for all backends."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from tcopt.support.errors import UnsupportedError


def known_strides(type: MemRefType[Attribute]) -> tuple[int | None, ...]:
    """Return the strides of a memref in elements; None for those that are not in its type.

    Raises UnsupportedError if the layout has no strides.
    """
    strides = type.get_strides()
    if strides is None:
        raise UnsupportedError(f"{type} has no row-major or strided layout")
    return tuple(strides)


def static_strides(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """Return the strides, in elements, of a memref with static shape.

    Raises UnsupportedError for dynamic sizes or strides.
    """
    known = [stride for stride in known_strides(type) if stride is not None]
    if len(known) < type.get_num_dims() or not type.has_static_shape():
        raise UnsupportedError(f"{type} has no static row-major or strided layout")
    return tuple(known)
