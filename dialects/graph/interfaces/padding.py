"""Interface for operators that read or create padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.borders import Border

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


class PaddingInterface(Operation):
    """Interface used by `propagate-padding`: the border around an operand that an op could read."""

    def border(self, nonnegative: bool) -> Border | None:
        """Return the border around the first operand in which the op could read its padding.

        It is empty if nothing is padded. It is None for ops that do not move a window over that
        operand, and where the padding is not a known constant.

        Args:
            nonnegative: whether all elements of the operand are non-negative.
        """
        return None

    def inside_border(self, x: SSAValue, border: Border) -> GraphOp:
        """Return the same op on `x`, the first operand extended by a border.

        Args:
            x: the first operand with the border around it.
            border: the border of `x`, which contains the one that `border` returned.
        """
        raise NotImplementedError(f"{self.name} has no border")

    @property
    def copies_to_pad(self) -> bool:
        """Whether the op copies its first operand in order to pad it."""
        return False

    @property
    def is_border(self) -> bool:
        """Whether the op only surrounds its first operand with elements of one known value.

        The operand's producer can write its result inside such a border directly.
        """
        return False

    def is_nonnegative(self, operands: Sequence[bool]) -> bool:
        """Whether all elements of the result are non-negative.

        Args:
            operands: for each operand, whether all its elements are non-negative.
        """
        return False
