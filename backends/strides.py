"""Strides of buffers, for all backends."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from tcopt.support.errors import UnsupportedError


def static_strides(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """Return the strides, in elements, of a memref with static shape.

    Raises UnsupportedError for dynamic sizes or strides.
    """
    strides = type.get_strides() if type.has_static_shape() else None
    if strides is None or None in strides:
        raise UnsupportedError(f"{type} has no static row-major or strided layout")
    return tuple(stride for stride in strides if stride is not None)
