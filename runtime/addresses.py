"""Addresses of array data, for calls of compiled code."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _asked(array: Array) -> int:
    """Return the address by numpy's `ctypes` object, which takes most of a microsecond."""
    return array.ctypes.data


def _read(array: Array, place: int = object.__basicsize__) -> int:
    """Return the first field of numpy's array structure, which is part of its stable ABI."""
    return ctypes.c_void_p.from_address(id(array) + place).value or 0


def _fastest() -> Callable[[Array], int]:
    """Return `_read` if `id` is an object's address, as in CPython, or else `_asked`."""
    if sys.implementation.name != "cpython":
        return _asked
    samples = [np.empty(3), np.empty((2, 4), np.int8)[1:]]
    return _read if all(_read(each) == _asked(each) for each in samples) else _asked


address_of = _fastest()
"""Return the address of an array's first element."""


def span_of(array: Array) -> tuple[int, int]:
    """Return the lowest address of an array with elements, and that after its last byte."""
    start = address_of(array)
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low, high = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    return start + low, start + high + array.itemsize
