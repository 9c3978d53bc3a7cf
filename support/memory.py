"""Whether there is memory, asked beforehand where its lack would end the process."""

from __future__ import annotations

import mmap


def can_map(size: int) -> bool:
    """Whether the system gives so many bytes of address space; they are given back at once."""
    try:
        # Never touched, so it costs nothing.
        mmap.mmap(-1, size).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
