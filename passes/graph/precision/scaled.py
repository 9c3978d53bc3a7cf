"""Real tensors represented as integers times a scale, and operators on the integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.types import Array, shape_of


class ScaledIntegers(NamedTuple):
    """A real tensor: integers, each multiplied by a scale."""

    integers: SSAValue
    scale: SSAValue
    """Positive f32 that broadcasts against the integers."""
    known: Array | None
    """Value of the scale; None if it is unknown."""

    @property
    def is_uniform(self) -> bool:
        """Whether all elements have one scale."""
        return all(extent == 1 for extent in shape_of(self.scale))

    def scales_like(self, other: ScaledIntegers) -> bool:
        """Whether scales are known to be equal, up to the rounding of a product of two."""
        if self.known is None or other.known is None:
            return self.scale is other.scale
        return bool(np.allclose(*np.broadcast_arrays(self.known, other.known), rtol=2e-7, atol=0))


class ScaledOps(NamedTuple):
    """Ops that compute a scaled tensor."""

    integers: Sequence[Operation]
    """The last op produces the integers."""
    scale: Sequence[Operation] = ()
    """The last op produces the scale; without ops, it is the scale of the first operand."""
