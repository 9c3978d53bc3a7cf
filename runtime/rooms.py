"""Rooms: memory in which a tensor grows without being copied.

The tensor begins where the room begins and has the strides of the room. A run that appends to a
donated tensor in a room writes only the new elements, and returns a longer view of the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.addresses import address_of

if TYPE_CHECKING:
    from tcopt.runtime.outputs import OutputPool
    from tcopt.runtime.specs import TensorSpec

Array = NDArray[Any]

_BLOCKS: WeakValueDictionary[int, Array] = WeakValueDictionary()
"""The memory of rooms by its identity: nothing else may be written after a tensor."""


def is_in_room(array: Array) -> bool:
    """Whether an array is a result in a room, or a view of one."""
    return array.base is not None and _BLOCKS.get(id(array.base)) is array.base


def contiguous(arrays: Sequence[Any], specs: Sequence[TensorSpec]) -> Sequence[Any]:
    """Return the feeds of a program, with copies of those in rooms that it does not extend."""
    return [
        array.copy()
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous and not spec.room
        else array
        for array, spec in zip(arrays, specs, strict=True)
    ]


def new_room(pool: OutputPool, room: Sequence[int], shape: Sequence[int]) -> Array:
    """Return an uninitialised tensor in a new room.

    Args:
        room: shape of the room.
        shape: shape of the tensor.
    """
    whole, _ = pool.take(tuple(room))
    assert whole.base is not None
    _BLOCKS[id(whole.base)] = whole.base
    return part_of(whole, shape)


def part_of(whole: Array, shape: Sequence[int]) -> Array:
    """Return the tensor of a shape that begins where an array begins."""
    return whole[tuple(slice(extent) for extent in shape)]


def grown(tensor: Array, room: tuple[int, ...], shape: Sequence[int]) -> Array | None:
    """Return a tensor with another shape in the memory of a tensor; None if that is not in a room.

    Args:
        room: shape of the room.
        shape: shape of the result.
    """
    block = tensor.base
    if block is None or not is_in_room(tensor):
        return None
    strides = row_major_strides(room, tensor.itemsize)
    if tensor.strides != strides:
        axes = zip(tensor.shape, tensor.strides, strides, strict=True)
        if any(own != stride for extent, own, stride in axes if extent > 1):
            return None
    start = address_of(tensor) - address_of(block)
    if start + prod(room) * tensor.itemsize > block.nbytes:
        return None
    return np.ndarray(shape, tensor.dtype, block, start, strides)


@lru_cache(256)
def row_major_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a dense array in bytes."""
    return tuple(prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape)))
