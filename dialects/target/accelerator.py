"""What passes, rules, proofs and models of time ask of an accelerator.

An accelerator beside the CPU has memories whose addresses programs choose, units that execute
instructions, each its own in order, and a way in which units wait for each other. Its attribute is
a subclass of `AcceleratorFacts`, which may be in a file of its own (docs/adding_an_accelerator.md).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation

from tcopt.dialects.target.interface import TargetFacts


@dataclass(frozen=True)
class Port:
    """The port to memory, which all units share.

    Attributes:
        channels: what does one transfer at a time, by name; stores take the last one.
        latency: cycles from the end of a transfer to the end of its task.
        by_priority: whether the first in `Machine.priorities` gets it, not who asked first.
    """

    latency: int = 0
    by_priority: bool = False
    channels: tuple[str, ...] = ("port",)


@dataclass(frozen=True)
class Fetch:
    """How instructions reach the units.

    Attributes:
        burst: instructions in one transfer. cycles: of the first channel, for one; 0 where they
            come another way.
        depth: instructions that the queue in front of a unit holds.
        start: the cycle of the first request.
    """

    burst: int = 1
    cycles: int = 0
    depth: int = 16
    start: int = 0


@dataclass(frozen=True)
class Tokens:
    """Units wait for each other by tokens, which instructions send and take.

    Attributes:
        queues: how many tokens each holds, by the unit that sends them and the one that waits.
    """

    queues: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Barriers:
    """At a barrier no unit goes on before all are done with what comes before it.

    Attributes:
        cycles: of a barrier, from when the last unit is done.
    """

    cycles: int = 0


@dataclass(frozen=True)
class Interlocks:
    """The machine finds hazards itself: an instruction waits for all before it that touch what it
    does, and programs say nothing."""


Order = Tokens | Barriers | Interlocks
"""How units wait for each other."""


@dataclass(frozen=True)
class MatrixUnit:
    """A unit that multiplies `rows` x `inner` signed bytes by `inner` x `lanes` others in a step,
    and adds the products to sums of 32 bits.

    Attributes:
        cycles: of a step.
        results: types of results that can be stored, of `i32` and `i8`.
        instructions: what rules make products of; None for a machine with rules of its own.
    """

    rows: int
    lanes: int
    inner: int
    cycles: int = 1
    results: tuple[str, ...] = ("i32",)
    instructions: MatrixInstructions | None = None

    @property
    def products(self) -> int:
        """Multiplications of a step."""
        return self.rows * self.lanes * self.inner


@dataclass(frozen=True)
class Alu:
    """A unit that computes element by element on the sums of the matrix unit, where they are.

    Attributes:
        number_cycles: of a step, for as many elements as the matrix unit has sums in one, where
            one of the operands is a number of the instruction.
        register_cycles: where both operands are in registers.
        loads_bytes: whether bytes in memory can be loaded as operands.
        registers: how many there are, each of a step's elements.
        multiplies: whether it computes the high halves of products.
    """

    number_cycles: int = 1
    register_cycles: int = 1
    loads_bytes: bool = False
    registers: int = 0
    multiplies: bool = False


@dataclass(frozen=True)
class MatrixInstructions:
    """The intrinsics of a matrix unit by what they do, and the memories of its operands, which are
    memory scopes."""

    data: str
    weights: str
    sums: str
    load_data: str
    load_weights: str
    reset: str
    multiply: str
    store: str


@dataclass(frozen=True)
class Issue:
    """An instruction of a program, as far as its time depends on it.

    Attributes:
        intrinsic: its name. unit: what executes it.
        loops: how often each of its loops runs, the outermost first.
        rows: pieces of memory outside of the accelerator, without gaps, that it moves.
        row_bytes: bytes of one.
    """

    intrinsic: str
    unit: str
    loops: tuple[int, ...]
    rows: int = 0
    row_bytes: int = 0

    @property
    def steps(self) -> int:
        """Calls of the intrinsic."""
        return prod(self.loops)


class AcceleratorFacts(TargetFacts):
    """Base of the attributes of accelerators.

    `TargetFacts.memories` has their memories by memory scopes.
    """

    @property
    @abstractmethod
    def units(self) -> Sequence[str]:
        """The units, those first that get the port first."""

    @property
    @abstractmethod
    def order(self) -> Order:
        """How units wait for each other."""

    @property
    def matrix_unit(self) -> MatrixUnit | None:
        """What computes sums of products; None where nothing does."""
        return None

    @property
    def alu(self) -> Alu | None:
        """What computes on these sums before they are stored; None where nothing does."""
        return None

    @property
    def memory_port(self) -> Port:
        """The port to memory."""
        return Port()

    @property
    def instruction_fetch(self) -> Fetch:
        """How instructions reach the units."""
        return Fetch()

    @property
    def last_unit(self) -> str:
        """The unit that says when a program is over."""
        return self.units[-1]

    @property
    def megahertz(self) -> int:
        """Millions of cycles in a second."""
        return 100

    def reads_out(self, ops: Sequence[Operation]) -> bool:
        """Whether an instruction that stores sums does to them what some operators of the graph do.

        The accelerator then gets these operators, and its rule says which intrinsic stores (see
        `MatrixContraction`).

        Args:
            ops: elementwise; the first reads the sums, each other one what is before it, and what
                else they read are constants: one number, or one for each channel.
        """
        return False

    def transfer_cycles(self, rows: int, row_bytes: int) -> int:
        """Cycles for which a transfer of rows has the port."""
        return rows * row_bytes

    def issue_cycles(self, issue: Issue) -> int:
        """Cycles for which a unit is busy with an instruction, beside those of the port."""
        return 0 if issue.rows else issue.steps
