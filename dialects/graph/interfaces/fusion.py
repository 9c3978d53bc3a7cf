"""How an operator fuses with others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Operation

from tcopt.dialects.graph.attributes import FusionKind
from tcopt.dialects.graph.types import shape_of


class FusionInterface(Operation):
    """What `fuse-ops` asks: whether an op may share a kernel with its producers and users."""

    FUSION: ClassVar[FusionKind] = FusionKind.INJECTIVE
    ELEMENTWISE: ClassVar[bool] = False

    @property
    def fusion_kind(self) -> FusionKind:
        """The op's kind in the fusion rules."""
        return self.FUSION

    @property
    def is_elementwise(self) -> bool:
        """Whether output element i depends on operand elements i only, up to broadcasting."""
        return self.ELEMENTWISE

    @property
    def is_opaque(self) -> bool:
        """Whether the op is a kernel of its own, written as loops (see `OpaqueOp`)."""
        return False

    @property
    def is_host_call(self) -> bool:
        """Whether Python computes the op, with what only a running program has at hand."""
        return False

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """The first operand's axes along which the op combines elements, where rows along
        them are all that it combines; empty for other ops."""
        return ()

    @property
    def stores_anywhere(self) -> bool:
        """Whether elements of the result are complete in registers, a tile at a time.

        A kernel can then store them in another order than the result's.
        """
        return False

    @property
    def fills_registers(self) -> bool:
        """Whether registers full of small elements take as long as a few of them, so that the op
        has a loop of its own behind sums, whose registers hold a quarter as many."""
        return False

    def work(self) -> int:
        """Rough number of scalar operations, to compare ops with one another."""
        return math.prod(shape_of(self.results[0]))

    def decompose(self) -> Sequence[Operation] | None:
        """Simpler ops that compute the same, the last one the result, where that helps fusion.

        None if the op is best as it is.
        """
        return None
