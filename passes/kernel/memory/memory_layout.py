"""Offsets of buffers with known sizes and lifetimes: offline dynamic storage allocation.

Buffers are placed one after the other, each in the smallest sufficient gap between the buffers that
are alive at the same time. The order determines the result, so a few good orders are tried and the
best is used (after Y. Pisarchyk and J. Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tcopt.support.machines.alignment import ALIGNMENT


@dataclass(frozen=True)
class Request:
    """A buffer of `size` bytes that is alive from step `start` to step `end`, inclusive."""

    size: int
    start: int
    end: int

    def meets(self, other: Request) -> bool:
        return self.start <= other.end and other.start <= self.end


def aligned(size: int) -> int:
    """Round `size` up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def live_bytes(requests: Sequence[Request]) -> int:
    """Return the maximum number of live bytes at any step: a lower bound of every placement."""
    change: dict[int, int] = {}
    for request in requests:
        change[request.start] = change.get(request.start, 0) + request.size
        change[request.end + 1] = change.get(request.end + 1, 0) - request.size
    most = now = 0
    for step in sorted(change):
        now += change[step]
        most = max(most, now)
    return most


def place(requests: Sequence[Request]) -> tuple[int, list[int]]:
    """Return offsets such that buffers that are alive at the same time do not overlap.

    Returns:
        The total size, and the offset of each request.
    """
    bound = live_bytes(requests)
    neighbours = _neighbours(requests)
    best: tuple[int, list[int]] | None = None
    for order in _orders(requests):
        found = _place_in_order(requests, order, neighbours)
        if best is None or found[0] < best[0]:
            best = found
        if best[0] == bound:
            break
    return best or (0, [])


def _orders(requests: Sequence[Request]) -> list[list[int]]:
    def length(i: int) -> int:
        return requests[i].end - requests[i].start + 1

    keys: list[Callable[[int], tuple[int, ...]]] = [
        lambda i: (-requests[i].size, requests[i].start),
        lambda i: (-requests[i].size * length(i), requests[i].start),
        lambda i: (-length(i), -requests[i].size),
        lambda i: (requests[i].start, -requests[i].size),
    ]
    return [sorted(range(len(requests)), key=key) for key in keys]


def _neighbours(requests: Sequence[Request]) -> list[list[int]]:
    """Return, for each request, the requests that are alive at the same time."""
    found: list[list[int]] = [[] for _ in requests]
    alive: list[int] = []
    for i in sorted(range(len(requests)), key=lambda i: requests[i].start):
        alive = [j for j in alive if requests[j].meets(requests[i])]
        for j in alive:
            found[j].append(i)
            found[i].append(j)
        alive.append(i)
    return found


def _place_in_order(
    requests: Sequence[Request], order: Sequence[int], neighbours: Sequence[Sequence[int]]
) -> tuple[int, list[int]]:
    offsets = [0] * len(requests)
    placed = [False] * len(requests)
    total = 0
    for i in order:
        request = requests[i]
        others = sorted(
            (offsets[j], offsets[j] + requests[j].size) for j in neighbours[i] if placed[j]
        )
        offsets[i] = _best_gap(others, request.size)
        placed[i] = True
        total = max(total, offsets[i] + request.size)
    return total, offsets


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the start of the smallest gap of at least `size`, or the end of all taken ranges."""
    best: tuple[int, int] | None = None
    end = 0
    for low, high in taken:
        if low - end >= size and (best is None or low - end < best[0]):
            best = (low - end, end)
        end = max(end, high)
    return best[1] if best is not None else end
