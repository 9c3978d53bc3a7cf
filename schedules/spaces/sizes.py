"""Sizes of tiles that are worth trying."""

from __future__ import annotations

LARGEST = 512
"""Iterations of a tile's loop at most."""


def sizes_up_to(extent: int, most_values: int = 10, largest: int = LARGEST) -> tuple[int, ...]:
    """Divisors of an extent and powers of two up to it, the smallest of them.

    Args:
        most_values: how many there are at most.
        largest: none is larger.
    """
    largest = min(extent, largest)
    divisors = {n for n in range(1, largest + 1) if extent % n == 0}
    powers = {1 << n for n in range(largest.bit_length()) if 1 << n <= largest}
    return tuple(sorted(divisors | powers)[:most_values])
