"""What kernels are given: buffers, by shape, type and role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

INPUT, WEIGHT, OUTPUT, WORKSPACE = "input", "weight", "output", "workspace"


def dtype_of(name: str) -> np.dtype[Any]:
    """The type of a name, of narrow floats and integers too."""
    return np.dtype(getattr(ml_dtypes, name, name))


@dataclass(frozen=True)
class Argument:
    """A buffer that a kernel is given.

    Attributes:
        shape, dtype: of the array in it; the type by numpy's name.
        role: `input`, `weight`, `output` or `workspace`.
    """

    shape: tuple[int, ...]
    dtype: str
    role: str

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * dtype_of(self.dtype).itemsize


def argument_of(facts: Mapping[str, Any]) -> Argument:
    """An argument from what `asdict` says of it."""
    return Argument(tuple(facts["shape"]), facts["dtype"], facts["role"])
