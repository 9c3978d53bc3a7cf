"""How an operator reads or makes padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.borders import Border

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


class PaddingInterface(Operation):
    """What `propagate-padding` asks: which border around an operand an op could read."""

    def border(self, nonnegative: bool) -> Border | None:
        """The border around the first operand in which the op could read its padding.

        It is empty where nothing is padded, and None for ops that do not move a window over
        that operand, or whose padding is not a number that is known.

        Args:
            nonnegative: whether the operand has no element below zero.
        """
        return None

    def inside_border(self, x: SSAValue, border: Border) -> GraphOp:
        """The same op with `x` as first operand, that operand with a border around it.

        Args:
            x: the operand inside of the border.
            border: one that holds what `border` gave.
        """
        raise NotImplementedError(f"{self.name} has no border")

    @property
    def copies_to_pad(self) -> bool:
        """Whether the op copies its first operand in order to pad it."""
        return False

    @property
    def is_border(self) -> bool:
        """Whether the op only puts elements of one known number around its first operand.

        The operand's producer can write its result inside of them at once.
        """
        return False

    def is_nonnegative(self, operands: Sequence[bool]) -> bool:
        """Whether no element of the result is below zero.

        Args:
            operands: of each operand, whether none of its elements is.
        """
        return False
