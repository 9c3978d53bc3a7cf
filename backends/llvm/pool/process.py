"""The pool of this process, shared by all code that is compiled and loaded here."""

from __future__ import annotations

import ctypes
from functools import cache

import llvmlite.binding as llvm

from tcopt.backends.llvm.host import host_target
from tcopt.backends.llvm.machine import assemble_object, initialize_native
from tcopt.backends.llvm.pool.text import PARALLEL_SYMBOL, pool_text


@cache
def pool_address() -> int:
    """The address of `tcopt_parallel`; the pool is loaded on first use."""
    return load_pool()


def load_pool(sleep: str | None = None) -> int:
    """Load one more pool into this process, for good; returns `tcopt_parallel`'s address.

    Args:
        sleep: as in `pool_text`.
    """
    initialize_native()
    process = ctypes.CDLL(None)
    at_fork = "__register_atfork" if hasattr(process, "__register_atfork") else "pthread_atfork"
    target = host_target()
    text = pool_text(target, linkage="", at_fork=at_fork, sleep=sleep)
    library = llvm.JITLibraryBuilder()
    library.add_object_img(assemble_object(text, target)).add_current_process()
    library.export_symbol(PARALLEL_SYMBOL)
    linker = llvm.create_lljit_compiler()
    loaded = library.link(linker, "tcopt.pool")
    address: int = loaded[PARALLEL_SYMBOL]
    # The threads run this code as long as the process lives, so it is never unloaded.
    loaded.detach()
    linker.detach()
    return address
