"""Linking of object code into this process, without any IR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import count

import llvmlite.binding as llvm

from tcopt.backends.llvm.machine.machine import assemble_object, check_room, new_linker
from tcopt.backends.llvm.pool.text import STOP_VARIABLE, THREADS_VARIABLE
from tcopt.backends.llvm.runtime import helper_addresses, symbol_address
from tcopt.support.errors import BackendError
from tcopt.support.machines.cpu_target import CpuTarget

_numbers = count()


@cache
def _jit() -> llvm.LLJIT:
    """Return the JIT linker of the process, in which each module is a library."""
    return new_linker()


def link_objects(
    objects: Sequence[bytes],
    externals: Iterable[str],
    exported: Iterable[str],
    stop: int,
    own: Mapping[str, int] | None = None,
) -> llvm.ResourceTracker:
    """Load object code into this process; it stays loaded for the lifetime of the result.

    Args:
        externals: C functions that the code calls.
        exported: symbols whose addresses can be looked up by `result[symbol]`.
        stop: the address of the stop variable.
        own: addresses by name of called functions that no library defines.

    Raises:
        BackendError: a symbol is missing.
        MemoryError: too little memory.
    """
    check_room()
    library = llvm.JITLibraryBuilder()
    for data in objects:
        library.add_object_img(data)
    addresses = helper_addresses() | {name: symbol_address(name) for name in externals}
    for name, address in addresses.items():
        library.import_symbol(name, address)
    for name, address in (own or {}).items():
        library.import_symbol(name, address)
    library.import_symbol(STOP_VARIABLE, stop)
    for symbol in exported:
        library.export_symbol(symbol)
    try:
        return library.link(_jit(), f"tcopt{next(_numbers)}")
    except RuntimeError as error:
        raise BackendError(f"linking the generated code failed: {error}") from error


@cache
def threads_object(target: CpuTarget) -> bytes:
    """Return object code that defines the thread-count variable for code linked with it."""
    return assemble_object(f"@{THREADS_VARIABLE} = global i32 1\n", target)
