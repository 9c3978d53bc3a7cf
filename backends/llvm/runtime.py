"""External functions that generated code calls: the C library, libgcc and the thread pool."""

from __future__ import annotations

import ctypes
from functools import cache

from tcopt.backends.llvm.pool.process import pool_address
from tcopt.backends.llvm.pool.text import PARALLEL_SYMBOL
from tcopt.support.errors import BackendError


def _address(function: object) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value  # pyright: ignore
    assert address is not None
    return address


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    found = [ctypes.CDLL(None)]
    # `find_library` would start other programs, which is slow.
    for name in ("libm.so.6", "libgcc_s.so.1"):
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return tuple(found)


def symbol_address(name: str) -> int:
    """Return the address of a C function that generated code refers to.

    Raises BackendError if no library of this process defines it.
    """
    if name == PARALLEL_SYMBOL:
        return pool_address()
    for library in _libraries():
        try:
            return _address(getattr(library, name))
        except AttributeError:
            continue
    raise BackendError(
        f"the generated code calls '{name}', which no loaded library defines",
        hint="load the library that defines it before compiling",
    )


_COMPILER_HELPERS = (
    "__truncdfhf2",
    "__truncsfhf2",
    "__extendhfsf2",
    "__truncsfbf2",
    "__truncdfbf2",
    "fmodf",
    "fmod",
    "memcpy",
    "memmove",
    "memset",
    "roundf",
    "round",
    "roundeven",
    "roundevenf",
    "floorf",
    "floor",
    "ceilf",
    "ceil",
    "truncf",
    "trunc",
    "fmaf",
    "fma",
)


@cache
def helper_addresses() -> dict[str, int]:
    """Return the available functions that LLVM's code generator may call implicitly."""
    found: dict[str, int] = {}
    for name in _COMPILER_HELPERS:
        try:
            found[name] = symbol_address(name)
        except BackendError:
            continue
    return found
