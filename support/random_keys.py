"""Keys of random numbers: what a run draws its own from.

A program takes a key as an input that the model does not have; equal keys give equal numbers, on
every target and with any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError

KEY_INPUT = "random key"
"""What a program calls its key."""

_seed: ContextVar[int | None] = ContextVar("seed", default=None)


@contextmanager
def seeded(seed: Any) -> Generator[None]:
    """Give each program that runs while the context is open the same key.

    Args:
        seed: an integer of 64 bits.
    Raises:
        InputError: it is none.
    """
    try:
        number = -1 if isinstance(seed, bool) else index(seed)
        is_one = not isinstance(seed, bool) and -(2**63) <= number < 2**64
    except TypeError:
        number, is_one = -1, False
    if not is_one:
        raise InputError(f"a seed should be an integer of 64 bits, got {seed!r}")
    token = _seed.set(number % 2**64)
    try:
        yield
    finally:
        _seed.reset(token)


def new_key() -> NDArray[np.int64]:
    """The key of the next run: that of the seed, or one that no other run has."""
    seed = _seed.get()
    bits = os.urandom(8) if seed is None else seed.to_bytes(8, "little")
    return np.frombuffer(bits, np.int64).copy()


def key_of(seed: float) -> NDArray[Any]:
    """The key that the attribute of an operator stands for."""
    return np.array([np.float32(seed).view(np.int32)], np.int64)
