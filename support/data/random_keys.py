"""Keys of random number generators.

A program receives its key as an extra input. Equal keys give equal random numbers on every target
and with any number of threads.
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
"""Name of the key input of a program."""

_seed: ContextVar[int | None] = ContextVar("seed", default=None)


@contextmanager
def seeded(seed: Any) -> Generator[None]:
    """Use the same key for all programs that run within the context.

    Args:
        seed: a 64-bit integer.
    Raises:
        InputError: the seed is not a 64-bit integer.
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
    """Return the key of the next run: from the seed if there is one, otherwise a fresh one."""
    seed = _seed.get()
    bits = os.urandom(8) if seed is None else seed.to_bytes(8, "little")
    return np.frombuffer(bits, np.int64).copy()


def key_of(seed: float) -> NDArray[Any]:
    """Return the key for the seed attribute of an operator."""
    return np.array([np.float32(seed).view(np.int32)], np.int64)
