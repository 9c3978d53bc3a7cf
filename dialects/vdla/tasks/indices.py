"""Entries that the micro-ops of an instruction access in each step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.vdla.stream import Compute, Gemm, Pair

Indices = NDArray[np.int64]


def step_indices(instruction: Compute, micro_ops: NDArray[Any]) -> tuple[Indices, Indices, Indices]:
    """Return `dst`, `src` and `wgt` of each step, in execution order.

    Args:
        micro_ops: the micro-ops of the instruction, one row of three numbers for each.
    """
    wgt = instruction.wgt if isinstance(instruction, Gemm) else (0, 0)
    factors = (instruction.dst, instruction.src, wgt)
    dst, src, weight = (
        _indices(instruction.loops, micro_ops[:, n], factor) for n, factor in enumerate(factors)
    )
    return dst, src, weight


def _indices(loops: Pair, first: NDArray[Any], factors: Pair) -> Indices:
    outer = np.arange(loops[0], dtype=np.int64)[:, None, None] * factors[0]
    inner = np.arange(loops[1], dtype=np.int64)[None, :, None] * factors[1]
    return (outer + inner + first[None, None, :]).reshape(-1)
