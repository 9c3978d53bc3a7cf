"""What an accelerator with a matrix unit, or an alu, can compute of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.types import Array

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


LARGEST_PRODUCT = 1 << 14
"""The largest product of two signed bytes."""


@dataclass(frozen=True)
class Offload:
    """An operator as one on blocks of channels, as an accelerator takes them.

    Attributes:
        before: ops on the host that make its operands, in order.
        body: what the accelerator computes.
        after: ops on the host that make the operator's result.
        products: multiplications, those with what fills up blocks included.
        bound: the greatest magnitude of the integers of the body's result.
        steps: how many elements an alu works on with others in registers.
        registers: how many of them, each of a block's channels, the smallest piece needs.
    """

    before: Sequence[GraphOp]
    body: Sequence[GraphOp]
    after: Sequence[GraphOp]
    products: int
    bound: int
    steps: int = 0
    registers: int = 0


@dataclass(frozen=True)
class Registers:
    """Integers of 32 bits in registers of an alu, on blocks of channels.

    Attributes:
        value: what is in the registers.
        offset: what is still to be added, in the shape of the operator that it is for.
        limits: what is to be the least and the greatest, after that.
        bound: the greatest magnitude of the integers.
    """

    value: SSAValue
    offset: Array
    bound: int
    limits: tuple[int, int] | None = None


class Alu(Protocol):
    """An alu that adds and compares integers of 32 bits, and shifts them, as operators see it."""

    def number(self, value: SSAValue) -> Array | None:
        """The value of what is made of constants."""
        ...

    def operand(self, value: SSAValue) -> Registers | None:
        """An operand in registers; None if it cannot be there."""
        ...

    def settled(self, registers: Registers) -> Registers:
        """The same with nothing left to be added or compared."""
        ...

    def add(self, op: GraphOp) -> SSAValue:
        """Let the alu compute an operation; its result."""
        ...

    def constant(self, number: int) -> SSAValue:
        """A number of 32 bits."""
        ...


class PlacementInterface(Operation):
    """What the partition of a model between processors asks."""

    def on_matrix_unit(self, inner: int, lanes: int) -> Offload | str:
        """The same by a unit that multiplies a row of `inner` signed bytes by `inner` x `lanes`
        others and sums in 32 bits, where pads are zeros; or why there is no such form.
        """
        return "it is not a sum of products"

    def on_alu_in_blocks(self, lanes: int) -> Offload | str | None:
        """The same by an alu alone, of integers that are loaded into its registers as signed bytes,
        `lanes` channels at a time; why there is no such form, or None where nobody would ask.
        """
        return None

    def on_alu(self, alu: Alu) -> Registers | str:
        """The same integers by sums, comparisons and shifts; or why there is no such form."""
        return f"an alu does not compute {self.name}"
