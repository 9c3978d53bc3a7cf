"""Memory limits of child processes, which fail before the machine runs out of memory."""

from __future__ import annotations

import os

_SHARE = 0.6


def memory_for_child() -> int:
    """Return the memory limit of a child in bytes: a fraction of the machine's memory."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return int(pages * size * _SHARE)


def limit_memory(size: int) -> None:
    """Limit the memory of this process, so that larger allocations fail, if the system can."""
    try:
        import resource
    except ImportError:  # This system has no resource limits.
        return
    # Limit data, not address space, as devices and compilers reserve more address space than they
    # use.
    limit = getattr(resource, "RLIMIT_DATA", None)
    if limit is not None:
        _, most = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            size = min(size, most)
        resource.setrlimit(limit, (size, most))
