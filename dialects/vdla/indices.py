"""Entries that the micro-ops of an instruction access in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def step_indices(
    loops: Sequence[int], factors: Sequence[Sequence[int]], micro_ops: NDArray[Any]
) -> list[Indices]:
    """Return the entries that each field of the micro-ops addresses, in execution order.

    Args:
        loops: trip counts, outermost first.
        factors: for each field, its step in each loop.
        micro_ops: one row of fields for each.
    """
    return [_indices(loops, steps, micro_ops[:, n]) for n, steps in enumerate(factors)]


def _indices(loops: Sequence[int], steps: Sequence[int], first: NDArray[Any]) -> Indices:
    total = first.astype(np.int64)
    for extent, step in zip(reversed(loops), reversed(steps), strict=True):
        total = (np.arange(extent, dtype=np.int64)[:, None] * step + total[None, :]).reshape(-1)
    return total
