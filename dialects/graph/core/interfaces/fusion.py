"""Interface for operator fusion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Operation

from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.types import shape_of


class FusionInterface(Operation):
    """Interface used by `fuse-ops`: whether an op may share a kernel with its producers and
    users."""

    FUSION: ClassVar[FusionKind] = FusionKind.INJECTIVE
    ELEMENTWISE: ClassVar[bool] = False

    @property
    def fusion_kind(self) -> FusionKind:
        """Kind of the op in the fusion rules."""
        return self.FUSION

    @property
    def is_elementwise(self) -> bool:
        """Whether output element i depends on operand elements i only, up to broadcasting."""
        return self.ELEMENTWISE

    @property
    def is_opaque(self) -> bool:
        """Whether the op becomes a kernel of its own, written as loops (see `OpaqueOp`)."""
        return False

    @property
    def is_host_call(self) -> bool:
        """Whether the op is computed in Python at run time, from data that only a running program
        has."""
        return False

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """Axes of the first operand that the op reduces, if each row along them is reduced on its
        own; empty for other ops."""
        return ()

    @property
    def multiplied_rows(self) -> int | None:
        """Index of the operand whose rows, along the last axis, a contraction multiplies by a
        matrix with contiguous rows; None for other ops.

        Element [..., i, j] of the result depends on elements [..., i, :] of this operand, and on
        elements [..., :, j] of the other.
        """
        return None

    @property
    def stores_anywhere(self) -> bool:
        """Whether elements of the result are completed in registers, one tile at a time.

        A kernel can then store them in an order other than the result's.
        """
        return False

    @property
    def fills_registers(self) -> bool:
        """Whether a full register of narrow elements takes no longer than a few elements. The op
        then gets a loop of its own after a contraction, whose registers of wide sums hold a quarter
        as many."""
        return False

    @property
    def is_border(self) -> bool:
        """Whether the op only surrounds its first operand with elements of one known value.

        The operand's producer can write its result inside such a border directly.
        """
        return False

    def work(self) -> int:
        """Return a rough number of scalar operations, for comparing ops."""
        return math.prod(shape_of(self.results[0]))

    def decompose(self) -> Sequence[Operation] | None:
        """Return simpler ops for the same result, the last one producing it, if that helps fusion.

        None if the op should not be decomposed.
        """
        return None
