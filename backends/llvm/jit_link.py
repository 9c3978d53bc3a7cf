"""Object code into this process; needs no IR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import count

import llvmlite.binding as llvm

from tcopt.backends.llvm.machine.machine import assemble_object, check_room, new_linker
from tcopt.backends.llvm.pool.text import STOP_VARIABLE, THREADS_VARIABLE
from tcopt.backends.llvm.runtime import helper_addresses, symbol_address
from tcopt.support.cpu_target import CpuTarget
from tcopt.support.errors import BackendError

_numbers = count()


@cache
def _jit() -> llvm.LLJIT:
    """One just-in-time linker for the process; each module is a library in it."""
    return new_linker()


def link_objects(
    objects: Sequence[bytes],
    externals: Iterable[str],
    exported: Iterable[str],
    stop: int,
    own: Mapping[str, int] | None = None,
) -> llvm.ResourceTracker:
    """Load object code into this process; it stays for as long as the result is kept.

    Args:
        externals: C functions that the code calls.
        exported: symbols whose addresses the result gives, by `result[symbol]`.
        stop: the address of the variable that makes the code stop.
        own: addresses of functions that the code calls and no library has, by name.

    Raises:
        BackendError: a symbol is missing.
        MemoryError: there is too little memory.
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
    """Object code of the variable that holds the number of threads of what it is linked to."""
    return assemble_object(f"@{THREADS_VARIABLE} = global i32 1\n", target)
