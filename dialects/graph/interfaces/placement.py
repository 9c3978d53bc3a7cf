"""Interface for operators on an accelerator with a matrix unit or an ALU."""

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
"""Registers in addition to those that are reduced: results, and operands combined with them."""


@dataclass(frozen=True)
class Offload:
    """An operator rewritten on blocks of channels for an accelerator.

    Attributes:
        before: ops on the host that prepare the operands, in order.
        body: ops that the accelerator computes.
        after: ops on the host that produce the operator's result: layouts and reshapes.
        products: number of multiplications, padding of blocks included.
        bound: maximum magnitude of the integers in the body's result.
        steps: number of operations of an ALU on elements in registers.
        registers: number of registers, each for the channels of a block, that the smallest tile
            needs.
        channel: dimension of the operator's result that is divided into blocks.
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
    """Real values that are a non-decreasing function of integers in registers.

    Attributes:
        terms: the integers.
        function: maps an array of integers for each term, with channels as the last dimension, to
            exactly the values that the operators compute.
        slopes: approximate increase of the function per unit of each term, by channel.
    """

    terms: tuple[Registers, ...]
    function: Callable[..., Array]
    slopes: tuple[Array, ...]


@dataclass(frozen=True)
class Registers:
    """32-bit integers in registers of an ALU, on blocks of channels.

    Attributes:
        value: contents of the registers.
        offset: pending addend: a scalar, or one value for each channel.
        limits: pending minimum and maximum, applied after the offset.
        bound: maximum magnitude of the integers.
        reals: the real values that the integers represent, until they are requantised.
    """

    value: SSAValue
    offset: Array
    bound: int
    limits: tuple[int, int] | None = None
    reals: Reals | None = None


class Alu(Protocol):
    """An ALU that adds, compares and shifts 32-bit integers, as seen by operators.

    Attributes:
        multiplies: whether it computes the high halves of products.
        slack: maximum difference between its integers and those that operators compute.
    """

    @property
    def multiplies(self) -> bool: ...

    @property
    def slack(self) -> int: ...

    def number(self, value: SSAValue) -> Array | None:
        """Return the value of an expression of constants: a scalar, or one value for each channel;
        None for anything else."""
        ...

    def operand(self, value: SSAValue) -> Registers | None:
        """Return an operand in registers; None if it cannot be loaded into them."""
        ...

    def settled(self, registers: Registers) -> Registers:
        """Apply the pending offset and limits."""
        ...

    def add(self, op: GraphOp) -> SSAValue:
        """Add an operation for the ALU and return its result."""
        ...

    def constant(self, number: int) -> SSAValue:
        """Return a 32-bit constant."""
        ...

    def table(self, numbers: Array, *, is_register: bool = False) -> SSAValue:
        """Return a table of 32-bit values, one for all channels or one for each.

        Args:
            is_register: whether the table must be in registers because the instruction takes no
                immediate.
        """
        ...

    def by_channel(self, numbers: Array) -> Array:
        """Broadcast numbers to an array with one entry for each channel."""
        ...

    def reach(self, registers: Registers) -> tuple[Array, Array]:
        """Return the minimum and maximum of the register contents, by channel."""
        ...

    def note(self, text: str) -> None:
        """Record a remark about the form for the user."""
        ...


class PlacementInterface(Operation):
    """Interface used by the partition of a model between processors."""

    def on_matrix_unit(self, inner: int, lanes: int) -> Offload | str:
        """Return the op for a unit that multiplies a row of `inner` signed bytes by an `inner` x
        `lanes` matrix and sums in 32 bits, with zero padding; or the reason why there is no such
        form."""
        return "it is not a contraction"

    def on_alu_in_blocks(self, lanes: int) -> Offload | str | None:
        """Return the op for an ALU alone, on integers loaded into its registers as signed bytes,
        `lanes` channels at a time; the reason why there is no such form, or None if the op is not a
        candidate."""
        return None

    def on_alu(self, alu: Alu) -> Registers | str:
        """Return the op as integer sums, comparisons and shifts; or the reason why there is no such
        form."""
        return f"an alu does not compute {self.name}"
