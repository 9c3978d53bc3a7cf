"""Check of available memory, for allocations whose failure would end the process."""

from __future__ import annotations

import mmap


def can_map(size: int) -> bool:
    """Whether the system can map `size` bytes of address space; they are released at once."""
    try:
        # The memory is never touched, so this is cheap.
        mmap.mmap(-1, size).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
