"""Transposition of square blocks of vector registers by shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

CHUNK_BITS = 128
"""Chunk width in which shuffles are cheapest."""

Shuffle = Callable[[SSAValue, SSAValue, Sequence[int]], SSAValue]
"""Returns a vector of the picked lanes of two; indices of the second follow those of the first."""


def transpose_chunks(
    rows: Sequence[SSAValue], lanes: int, chunk: int, shuffle: Shuffle
) -> list[SSAValue]:
    """Transpose rows within each chunk of a register.

    The number of rows n is a power of two, and at most `chunk`. In each chunk, result k has the
    lanes `k * chunk / n` to `(k + 1) * chunk / n - 1` of the rows; for each lane, the n elements of
    all rows are adjacent.

    Args:
        lanes: of a row.
        chunk: lanes of a chunk.
    """
    values, width = list(rows), 1
    while width < len(rows):
        following: list[SSAValue] = []
        for start in range(0, len(rows), 2 * width):
            for part in range(width):
                low, high = values[start + part], values[start + width + part]
                for half in (0, chunk // 2):
                    picks = _alternating(lanes, chunk, half, width)
                    following.append(shuffle(low, high, picks))
        values, width = following, 2 * width
    return values


def _alternating(lanes: int, chunk: int, half: int, width: int) -> list[int]:
    """Return alternating runs of `width` lanes of both vectors, from one half of each chunk."""
    picks: list[int] = []
    for start in range(half, lanes, chunk):
        for at in range(start, start + chunk // 2, width):
            picks += [*range(at, at + width), *range(lanes + at, lanes + at + width)]
    return picks
