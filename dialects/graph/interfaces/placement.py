"""What an accelerator with a matrix unit, or an alu, can compute of an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.types import Array

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


LARGEST_PRODUCT = 1 << 14
"""The largest product of two signed bytes."""


OTHER_REGISTERS = 4
"""Registers beside those that are reduced: results, and what is combined with these."""


@dataclass(frozen=True)
class Offload:
    """An operator as one on blocks of channels, as an accelerator takes them.

    Attributes:
        before: ops on the host that make its operands, in order.
        body: what the accelerator computes.
        after: ops on the host that make the operator's result, layouts and reshapes.
        products: multiplications, those with what fills up blocks included.
        bound: the greatest magnitude of the integers of the body's result.
        steps: how many elements an alu works on with others in registers.
        registers: how many of them, each of a block's channels, the smallest piece needs.
        channel: which dimension of the operator's result becomes blocks.
    """

    before: Sequence[GraphOp]
    body: Sequence[GraphOp]
    after: Sequence[GraphOp]
    products: int
    bound: int
    steps: int = 0
    registers: int = 0
    channel: int = 1


@dataclass(frozen=True)
class Reals:
    """Numbers that are a function of integers in registers, one that never goes down.

    Attributes:
        terms: the integers.
        function: of arrays of integers for each term, whose last dimension are channels: exactly
            what operators make of them.
        slopes: about how much it goes up for one of each term, by channel.
    """

    terms: tuple[Registers, ...]
    function: Callable[..., Array]
    slopes: tuple[Array, ...]


@dataclass(frozen=True)
class Registers:
    """Integers of 32 bits in registers of an alu, on blocks of channels.

    Attributes:
        value: what is in the registers.
        offset: what is still to be added, one number or one for each channel.
        limits: what is to be the least and the greatest, after that.
        bound: the greatest magnitude of the integers.
        reals: the numbers that these stand for, where they are not yet integers again.
    """

    value: SSAValue
    offset: Array
    bound: int
    limits: tuple[int, int] | None = None
    reals: Reals | None = None


class Alu(Protocol):
    """An alu that adds and compares integers of 32 bits, and shifts them, as operators see it.

    Attributes:
        multiplies: whether it computes the high halves of products.
        slack: how far integers may be from what operators compute.
    """

    @property
    def multiplies(self) -> bool: ...

    @property
    def slack(self) -> int: ...

    def number(self, value: SSAValue) -> Array | None:
        """The value of what is made of constants: one number, of no dimensions, or one for each
        channel; None for anything else."""
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

    def table(self, numbers: Array, *, is_register: bool = False) -> SSAValue:
        """Numbers of 32 bits, one for all channels or one for each.

        Args:
            is_register: an instruction takes no number in their place.
        """
        ...

    def by_channel(self, numbers: Array) -> Array:
        """Numbers as an array with one for each channel."""
        ...

    def reach(self, registers: Registers) -> tuple[Array, Array]:
        """The least and the greatest of what is in registers, by channel."""
        ...

    def note(self, text: str) -> None:
        """Say something about the form to people."""
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
