"""Mutated feeds: extreme and repeated values, nan, infinities, negative lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_SMALL = (-2, -1, 0, 1, 2, 3, 7)
_LARGE = (1 << 15, 1 << 31, 1 << 32, 1 << 40, 1 << 62)
_FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e10, -1e10, 1e-45, -0.0, 0.5, -1.0, 2.0**31)


def mutate(feeds: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return feeds of which one or more, of any type, are changed in some or all elements."""
    names = [name for name, value in feeds.items() if _is_number(value) and value.size]
    result = dict(feeds)
    if not names:
        return result
    chosen = rng.choice(names, size=int(rng.integers(1, min(len(names), 3) + 1)), replace=False)
    for name in chosen:
        result[str(name)] = _changed(np.array(feeds[str(name)]), rng)
    return result


def _is_number(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def _changed(array: Array, rng: np.random.Generator) -> Array:
    flat = array.reshape(-1)
    match int(rng.integers(4)):
        case 0:
            places = np.arange(flat.size)
        case 1:
            # All elements are equal, whatever the value.
            flat[:] = _numbers(array.dtype, rng, 1)[0]
            return flat.reshape(array.shape)
        case _:
            places = rng.choice(flat.size, size=int(rng.integers(1, flat.size + 1)), replace=False)
    flat[places] = _numbers(array.dtype, rng, places.size)
    return flat.reshape(array.shape)


def _numbers(dtype: np.dtype[Any], rng: np.random.Generator, count: int) -> Array:
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.array(rng.choice(_FLOATS, count)).astype(dtype)
    limits = np.iinfo(dtype)
    values = [n for n in (*_SMALL, *_LARGE, *(-n for n in _LARGE)) if limits.min <= n <= limits.max]
    values += [limits.min, limits.max, limits.max - 1]
    picks = rng.integers(0, len(values), count)
    return np.array([values[pick] for pick in picks], dtype)
