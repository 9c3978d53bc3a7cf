"""What an operator is on integers, and on numbers of other precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.scaled import Scaled, ScaledOps
from tcopt.dialects.graph.types import is_float, shape_of, tensor, type_of

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


class LinearWeight(NamedTuple):
    """Scaling a channel of an op's result is scaling a slice of one of its operands."""

    operand: int
    """Place of the operand."""
    axis: int
    """The operand's axis that makes the channels."""
    channel: int
    """The result's channel axis."""


Limits: TypeAlias = tuple[int, int]
"""The least and the greatest of some integers."""


class Clamp(NamedTuple):
    """A tensor whose elements are those of another, or a limit where they are beyond that."""

    x: SSAValue
    """The other one."""
    low: float
    high: float


class PrecisionInterface(Operation):
    """What quantisation and conversions of element types ask."""

    @property
    def selects(self) -> bool:
        """Whether each element of the result is an element of an operand, chosen by its place or
        in comparison with others: what is added to all of them is added to the result."""
        return False

    @property
    def fills(self) -> Sequence[float] | None:
        """The numbers that elements of the result are beside those of operands; None where an
        element may be another number, computed of them."""
        return () if self.selects else None

    @property
    def exceeds_halves(self) -> bool:
        """Whether results for operands of 16-bit floats may be rounded, or too large, in 16 bits;
        not where elements are moved, selected or compared."""
        return False

    @property
    def has_steps(self) -> bool:
        """Whether the result may change by a whole step if an operand changes by a rounding error.

        By default, ops that make integers or truth values of floats have steps.
        """
        floats = any(is_float(type_of(operand).element_type) for operand in self.operands)
        return floats and not all(is_float(type_of(value).element_type) for value in self.results)

    def integer_limits(self, operands: Sequence[Limits]) -> Limits | None:
        """Between which integers all elements of the result are; None if that is not known.

        Args:
            operands: of each operand, between which its elements are.
        """
        return None

    def clamped(self) -> Clamp | None:
        """What the result is within limits; None if that is not what the op does."""
        return None

    def on_integers(self, operands: Sequence[Scaled]) -> ScaledOps | None:
        """The same on real numbers that are integers times a scale, computed on the integers.

        None if the op has no such form, or scales do not allow it. Integers are i16 or i32, and
        have no zero point.
        """
        return None

    def on_elements(self, x: SSAValue) -> GraphOp:
        """The same op on an operand, its only one, and for a result of other element type."""
        result = tensor(shape_of(self.results[0]), type_of(x).element_type)
        new = type(self).create(operands=[x], result_types=[result], properties=self.properties)
        return cast("GraphOp", new)

    def linear_weight(self) -> LinearWeight | None:
        """The operand in which the result is linear, channel by channel; None without one."""
        return None
