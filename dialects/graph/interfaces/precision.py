"""Interface for operators on integers and on values of other precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.scaled import Scaled, ScaledOps
from tcopt.dialects.graph.types import is_float, shape_of, tensor, type_of

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


class LinearWeight(NamedTuple):
    """Operand in which an op is linear: scaling one of its slices scales a channel of the
    result."""

    operand: int
    """Index of the operand."""
    axis: int
    """Axis of the operand that corresponds to the channels."""
    channel: int
    """Channel axis of the result."""


Limits: TypeAlias = tuple[int, int]
"""Minimum and maximum of a set of integers."""


class Clamp(NamedTuple):
    """A tensor clamped to [low, high]."""

    x: SSAValue
    """The tensor that is clamped."""
    low: float
    high: float


class PrecisionInterface(Operation):
    """Interface used by quantisation and conversions of element types."""

    @property
    def selects(self) -> bool:
        """Whether each element of the result is an element of an operand, selected by position or
        by comparison. A constant added to all operands is then added to the result."""
        return False

    @property
    def fills(self) -> Sequence[float] | None:
        """Values that elements of the result may have in addition to elements of operands; None if
        other values may be computed."""
        return () if self.selects else None

    @property
    def exceeds_halves(self) -> bool:
        """Whether results for 16-bit operands may be rounded or overflow in 16 bits; False for ops
        that only move, select or compare elements."""
        return False

    @property
    def has_steps(self) -> bool:
        """Whether a rounding error in an operand may change the result by a whole step.

        By default, ops from floats to integers or booleans have steps.
        """
        floats = any(is_float(type_of(operand).element_type) for operand in self.operands)
        return floats and not all(is_float(type_of(value).element_type) for value in self.results)

    def integer_limits(self, operands: Sequence[Limits]) -> Limits | None:
        """Return bounds of the result's elements as integers; None if they are unknown.

        Args:
            operands: bounds of the elements of each operand.
        """
        return None

    def clamped(self) -> Clamp | None:
        """Return the tensor and limits that the result clamps; None if the op is not a clamp."""
        return None

    def on_integers(self, operands: Sequence[Scaled]) -> ScaledOps | None:
        """Return the op on scaled integers (integers times a scale), computed on the integers.

        None if the op has no such form, or the scales do not permit it. Integers are i16 or i32 and
        have no zero point.
        """
        return None

    def on_elements(self, x: SSAValue) -> GraphOp:
        """Rebuild the op, which has one operand, on `x` and with the element type of `x`."""
        result = tensor(shape_of(self.results[0]), type_of(x).element_type)
        new = type(self).create(operands=[x], result_types=[result], properties=self.properties)
        return cast("GraphOp", new)

    def linear_weight(self) -> LinearWeight | None:
        """Return the operand in which the result is linear, channel by channel; None if there is
        none."""
        return None
