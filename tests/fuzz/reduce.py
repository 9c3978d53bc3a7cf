"""Reduction of a failing text that preserves its failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fuzz.mutations import tokens_of


def reduce(text: str, fails: Callable[[str], bool], seconds: float) -> str:
    """Return a part of a text for which `fails` still holds, found within a time limit."""
    deadline = time.monotonic() + seconds
    parts: Sequence[str] = _reduce_parts(text.splitlines(keepends=True), fails, deadline)
    parts = _reduce_parts(tokens_of("".join(parts)), fails, deadline)
    return "".join(parts)


def _reduce_parts(
    parts: Sequence[str], fails: Callable[[str], bool], deadline: float
) -> Sequence[str]:
    """Remove runs of parts, of decreasing length (delta debugging)."""
    size = max(len(parts) // 2, 1)
    while size:
        start = 0
        while start < len(parts):
            if time.monotonic() > deadline:
                return parts
            rest = [*parts[:start], *parts[start + size :]]
            if rest and fails("".join(rest)):
                parts = rest
            else:
                start += size
        size //= 2
    return parts
