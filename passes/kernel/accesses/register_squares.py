"""Squares of vector registers transposed by shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

CHUNK_BITS = 128
"""Within such parts of a register shuffles are cheapest."""

Shuffle = Callable[[SSAValue, SSAValue, Sequence[int]], SSAValue]
"""Makes a vector of the picked lanes of two, those of the second counted on from the first's."""


def transpose_chunks(
    rows: Sequence[SSAValue], lanes: int, chunk: int, shuffle: Shuffle
) -> list[SSAValue]:
    """Lanes that lie side by side in the rows, put together within each chunk of a register.

    Of n rows, a power of two and at most a chunk, result k holds in each chunk the lanes from
    `k * chunk / n` on, `chunk / n` of them, each as the n elements that the rows have there.

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
    """Runs of `width` elements of one half of each chunk, alternately of both vectors."""
    picks: list[int] = []
    for start in range(half, lanes, chunk):
        for at in range(start, start + chunk // 2, width):
            picks += [*range(at, at + width), *range(lanes + at, lanes + at + width)]
    return picks
