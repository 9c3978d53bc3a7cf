"""Input values of kernels, the same in every process and on every machine.

A value is a hash of its position, so a remote device is sent a seed instead of arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.tuner.arguments import dtype_of

Array = NDArray[Any]

SETS = 2
"""Number of input sets that a kernel is checked with: one of both signs, one positive."""

_CHUNK = 1 << 20
_UNIT = 2.0**-53


def make_values(shape: tuple[int, ...], dtype: str, seed: int, kind: int) -> Array:
    """Return an array of random values.

    Args:
        seed: of the array; arrays of different seeds are independent.
        kind: the set of inputs. In the first, floats are from -1 to 1; in the second, they are from
            0.25 to 1.25, so that divisions and logarithms are defined. Integers are small.
    """
    type_ = dtype_of(dtype)
    result = np.empty(shape, type_)
    flat = result.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        end = min(start + _CHUNK, flat.size)
        numbers = _hashes(start, end, (seed << 1) + kind)
        flat[start:end] = _scaled(numbers, type_, kind)
    return result


def _hashes(start: int, end: int, seed: int) -> NDArray[np.uint64]:
    """Return the Splitmix64 hash of each position."""
    with np.errstate(over="ignore"):
        x = np.arange(start, end, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x += np.uint64((seed * 0xD1B54A32D192ED03 + 0x632BE59BD9B4E019) & (2**64 - 1))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _scaled(numbers: NDArray[np.uint64], dtype: np.dtype[Any], kind: int) -> Array:
    if dtype.kind == "b":
        return (numbers & np.uint64(1)).astype(dtype)
    if dtype.kind in "iu":
        low, count = (0, 100) if dtype.kind == "u" else (-50, 101)
        if kind:
            low, count = 0, 16
        return ((numbers % np.uint64(count)).astype(np.int64) + low).astype(dtype)
    unit = (numbers >> np.uint64(11)).astype(np.float64) * _UNIT
    return (unit + 0.25 if kind else unit * 2 - 1).astype(dtype)


def poison(array: Array) -> None:
    """Fill an array with values that no kernel computes: NaN, or bytes of 0xA5 in integers."""
    flat = array.reshape(-1).view(np.uint8)
    flat[...] = 0xFF if is_float(array.dtype) else 0xA5


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a type has a NaN with all bits set, as numpy's floats and most others do."""
    return dtype.kind in "fcV" or "float" in dtype.name
