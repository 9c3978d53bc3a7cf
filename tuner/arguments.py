"""Arguments of a kernel: shape, element type and role of each buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

INPUT, WEIGHT, OUTPUT, WORKSPACE = "input", "weight", "output", "workspace"


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype of a name, which may be a narrow float or integer of `ml_dtypes`."""
    return np.dtype(getattr(ml_dtypes, name, name))


@dataclass(frozen=True)
class Argument:
    """A buffer that is an argument of a kernel.

    Attributes:
        shape, dtype: of the array in the buffer; the element type by numpy's name.
        role: `input`, `weight`, `output` or `workspace`.
    """

    shape: tuple[int, ...]
    dtype: str
    role: str

    @property
    def size(self) -> int:
        """Size of the argument in bytes."""
        return prod(self.shape) * dtype_of(self.dtype).itemsize


def argument_of(facts: Mapping[str, Any]) -> Argument:
    """Return the argument for a dictionary made by `asdict`."""
    return Argument(tuple(facts["shape"]), facts["dtype"], facts["role"])
