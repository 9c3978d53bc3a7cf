"""Code shared by all compiled modules in this process: the thread pool and the Ctrl-C handler."""

from __future__ import annotations

import ctypes
from functools import cache

import llvmlite.binding as llvm

from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import assemble_object, new_linker
from tcopt.backends.llvm.pool.text import PARALLEL_SYMBOL, interrupt_text, pool_text


@cache
def pool_address() -> int:
    """Return the address of `tcopt_parallel`; the pool is loaded on first use."""
    return load_pool()


def load_pool(sleep: str | None = None) -> int:
    """Load a new pool into this process permanently and return the address of `tcopt_parallel`.

    Args:
        sleep: as in `pool_text`.
    """
    process = ctypes.CDLL(None)
    at_fork = "__register_atfork" if hasattr(process, "__register_atfork") else "pthread_atfork"
    target = host_target()
    text = pool_text(target, linkage="", at_fork=at_fork, sleep=sleep)
    # The threads run this code for the lifetime of the process.
    (address,) = _load(text, "tcopt.pool", PARALLEL_SYMBOL)
    return address


@cache
def interrupt_addresses() -> tuple[int, int]:
    """Return the addresses of `tcopt_watch_interrupts` and `tcopt_watched`, see `interrupt.c`."""
    watch, watched = _load(
        interrupt_text(host_target()), "tcopt.interrupt", "tcopt_watch_interrupts", "tcopt_watched"
    )
    return watch, watched


def _load(text: str, name: str, *symbols: str) -> tuple[int, ...]:
    """Load LLVM IR into this process permanently and return the addresses of symbols in it."""
    library = llvm.JITLibraryBuilder()
    library.add_object_img(assemble_object(text, host_target())).add_current_process()
    for symbol in symbols:
        library.export_symbol(symbol)
    linker = new_linker()
    loaded = library.link(linker, name)
    addresses = tuple(loaded[symbol] for symbol in symbols)
    loaded.detach()
    linker.detach()
    return addresses
