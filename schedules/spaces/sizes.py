"""Candidate tile sizes."""

from __future__ import annotations

LARGEST = 512
"""Maximum trip count of a tile's loop."""


def sizes_up_to(extent: int, most_values: int = 10, largest: int = LARGEST) -> tuple[int, ...]:
    """Return the smallest divisors of an extent and powers of two up to it.

    Args:
        most_values: maximum number of sizes.
        largest: maximum size.
    """
    largest = min(extent, largest)
    divisors = {n for n in range(1, largest + 1) if extent % n == 0}
    powers = {1 << n for n in range(largest.bit_length()) if 1 << n <= largest}
    return tuple(sorted(divisors | powers)[:most_values])
