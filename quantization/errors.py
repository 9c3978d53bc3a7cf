"""Errors of quantised results relative to those in floating point."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Results = Mapping[str, Array]


@dataclass
class ErrorSum:
    """Sums of squared errors and of squared reference values over several runs."""

    changes: float = 0.0
    squares: float = 0.0

    def add(self, actual: Array, expected: Array) -> None:
        """Add a run. Elements that are not floats count as 1 if they differ."""
        if expected.dtype.kind != "f":
            self.changes += float(np.count_nonzero(actual != expected))
            self.squares += expected.size
            return
        wide = expected.astype(np.float64)
        # Equal infinities, and NaNs in the same position, are not errors.
        same = (actual == wide) | (np.isnan(actual) & np.isnan(wide))
        with np.errstate(invalid="ignore"):
            change = np.where(same, 0.0, actual - wide)
        self.changes += float(
            np.square(np.nan_to_num(change, nan=np.inf, posinf=np.inf, neginf=-np.inf)).sum()
        )
        self.squares += float(np.square(wide[np.isfinite(wide)]).sum())

    @property
    def relative(self) -> float:
        """Root mean square error relative to the root mean square of the reference."""
        if not self.changes:
            return 0.0
        return float(np.sqrt(self.changes / self.squares)) if self.squares else float("inf")

    @property
    def sqnr_db(self) -> float:
        """Signal-to-quantisation-noise ratio in decibels."""
        if not self.changes:
            return float("inf")
        return 10 * float(np.log10(self.squares / self.changes)) if self.squares else -float("inf")


def output_error(
    actual: Sequence[Results], expected: Sequence[Results], names: Collection[str] | None = None
) -> float:
    """Return the largest relative error of any output, over all runs.

    Args:
        names: names of outputs; by default all.
    """
    sums: dict[str, ErrorSum] = {}
    for ours, theirs in zip(actual, expected, strict=True):
        for name in theirs if names is None else names:
            sums.setdefault(name, ErrorSum()).add(ours[name], theirs[name])
    return max((found.relative for found in sums.values()), default=0.0)
