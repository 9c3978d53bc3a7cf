"""Stages of matrix products with leading dimensions that broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcopt.dialects.graph.core.stages import IndexLike, Indices
from tcopt.dialects.te import api as te


def broadcast_indices(batch: Indices, shape: Sequence[int]) -> list[IndexLike]:
    """Return the leading indices of an operand with leading dimensions `shape`, given the
    result's."""
    lead = batch[len(batch) - len(shape) :]
    return [0 if n == 1 else axis for n, axis in zip(shape, lead, strict=True)]


def matrix_stage(shape: Sequence[int], body: Callable[..., Any]) -> te.Tensor:
    """Return a stage over [batch..., M, N] whose axes have the conventional names."""

    def plain(i: te.Axis, j: te.Axis) -> Any:
        return body(i, j)

    def batched(b: te.Axis, i: te.Axis, j: te.Axis) -> Any:
        return body(b, i, j)

    named: dict[int, Callable[..., Any]] = {2: plain, 3: batched}
    return te.compute(shape, named.get(len(shape), body), name="matmul")
