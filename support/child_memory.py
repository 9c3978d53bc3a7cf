"""A bound on what a process may take, so that it runs out of memory before the machine does."""

from __future__ import annotations

import os

_SHARE = 0.6


def memory_for_child() -> int:
    """Bytes that a child may have: most of the machine's memory, or of what this process may."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return int(pages * size * _SHARE)


def limit_memory(size: int) -> None:
    """Let allocations fail in this process beyond so many bytes, as far as the system can."""
    try:
        import resource
    except ImportError:  # There is no such limit on this system.
        return
    # Of data, not of address space: devices and compilers reserve more of that than they use.
    limit = getattr(resource, "RLIMIT_DATA", None)
    if limit is not None:
        _, most = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            size = min(size, most)
        resource.setrlimit(limit, (size, most))
