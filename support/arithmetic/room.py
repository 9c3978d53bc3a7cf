"""Room above the values of sizes that nothing bounds."""

from __future__ import annotations

LEAST_ROOM = 16


def room_for(value: int) -> int:
    """Return the upper bound of a range for a value: a power of two."""
    return max(LEAST_ROOM, 1 << (max(value, 1) - 1).bit_length())
