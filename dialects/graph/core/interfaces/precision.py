"""Interface for operators on integers and on values of other precision."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.types import is_float, type_of


class LinearWeight(NamedTuple):
    """Operand in which an op is linear: scaling one of its slices scales a channel of the
    result."""

    operand: int
    """Index of the operand."""
    axis: int
    """Axis of the operand that corresponds to the channels."""
    channel: int
    """Channel axis of the result."""


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

    def clamped(self) -> Clamp | None:
        """Return the tensor and limits that the result clamps; None if the op is not a clamp."""
        return None

    def linear_weight(self) -> LinearWeight | None:
        """Return the operand in which the result is linear, channel by channel; None if there is
        none."""
        return None
