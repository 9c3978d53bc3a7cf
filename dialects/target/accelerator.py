"""Facts about an accelerator that passes, schedule rules, proofs and timing models use.

An accelerator attached to the CPU has memories whose addresses programs choose, units that each
execute their instructions in order, and a mechanism by which units wait for each other. Its
attribute is a subclass of `AcceleratorFacts`, which may be in a file of its own
(docs/adding_an_accelerator.md).
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
    """The memory port, which all units share.

    Attributes:
        channels: names of the channels, each of which does one transfer at a time; stores use the
            last.
        latency: cycles from the end of a transfer to the completion of its task.
        by_priority: whether arbitration follows `Machine.priorities`, not the order of requests.
    """

    latency: int = 0
    by_priority: bool = False
    channels: tuple[str, ...] = ("port",)


@dataclass(frozen=True)
class Fetch:
    """How instructions reach the units.

    Attributes:
        burst: instructions in one transfer.
        cycles: cycles of the first channel for each; 0 if instructions are fetched by other means.
        depth: capacity of the instruction queue of a unit.
        start: the cycle of the first request.
    """

    burst: int = 1
    cycles: int = 0
    depth: int = 16
    start: int = 0


@dataclass(frozen=True)
class Tokens:
    """Units synchronise by tokens, which instructions send and receive.

    Attributes:
        queues: the capacity of each queue, by sending and receiving unit.
    """

    queues: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Barriers:
    """Units synchronise at barriers: none continues before all have finished everything before it.

    Attributes:
        cycles: duration of a barrier after the last unit has finished.
    """

    cycles: int = 0


@dataclass(frozen=True)
class Interlocks:
    """The hardware resolves hazards: an instruction waits for earlier ones that access the same
    data, and programs contain no synchronisation."""


Order = Tokens | Barriers | Interlocks
"""How units synchronise."""


@dataclass(frozen=True)
class MatrixUnit:
    """A unit that multiplies `rows` x `inner` signed bytes by `inner` x `lanes` bytes in one step,
    and accumulates the products in 32 bits.

    Attributes:
        cycles: the duration of a step.
        results: types that results can be stored in, of `i32` and `i8`.
        instructions: the instructions that rules compute products with; None for a machine with
            its own rules.
    """

    rows: int
    lanes: int
    inner: int
    cycles: int = 1
    results: tuple[str, ...] = ("i32",)
    instructions: MatrixInstructions | None = None

    @property
    def products(self) -> int:
        """The number of multiplications in a step."""
        return self.rows * self.lanes * self.inner


@dataclass(frozen=True)
class Alu:
    """A unit for elementwise operations on the matrix unit's accumulators, in place.

    Attributes:
        number_cycles: cycles of a step (on as many elements as a matrix unit step accumulates)
            with an immediate operand.
        register_cycles: cycles of a step with both operands in registers.
        loads_bytes: whether bytes can be loaded from memory as operands.
        registers: the number of registers, each of which holds the elements of one step.
        multiplies: whether it can compute the high half of a product.
    """

    number_cycles: int = 1
    register_cycles: int = 1
    loads_bytes: bool = False
    registers: int = 0
    multiplies: bool = False


@dataclass(frozen=True)
class MatrixInstructions:
    """The intrinsics of a matrix unit by function, and the memory scopes of its operands."""

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
    """An instruction of a program, described by what determines its duration.

    Attributes:
        intrinsic: the name of the intrinsic. unit: the unit that executes it.
        loops: trip counts of its loops, outermost first.
        rows: the number of contiguous pieces of external memory that it transfers.
        row_bytes: bytes of each piece.
    """

    intrinsic: str
    unit: str
    loops: tuple[int, ...]
    rows: int = 0
    row_bytes: int = 0

    @property
    def steps(self) -> int:
        """The number of calls of the intrinsic."""
        return prod(self.loops)


class AcceleratorFacts(TargetFacts):
    """Base of the attributes of accelerators.

    `TargetFacts.memories` returns their memories by memory scope.
    """

    @property
    @abstractmethod
    def units(self) -> Sequence[str]:
        """The units, in order of decreasing priority at the port."""

    @property
    @abstractmethod
    def order(self) -> Order:
        """How units synchronise."""

    @property
    def matrix_unit(self) -> MatrixUnit | None:
        """The unit that computes contractions, if any."""
        return None

    @property
    def alu(self) -> Alu | None:
        """The unit that computes on the accumulators before they are stored, if any."""
        return None

    @property
    def memory_port(self) -> Port:
        """The memory port."""
        return Port()

    @property
    def instruction_fetch(self) -> Fetch:
        """How instructions reach the units."""
        return Fetch()

    @property
    def last_unit(self) -> str:
        """The unit that signals the end of a program."""
        return self.units[-1]

    @property
    def spaces(self) -> Mapping[str, int]:
        """The number of entries of each memory, by the name that instructions use for it."""
        return {scope: memory.entries for scope, memory in self.memories.items()}

    @property
    def granule(self) -> int:
        """Bytes of external memory that accesses are compared in; 0 for the elements of a buffer.

        Addresses and sizes of all transfers must be multiples of it.
        """
        return 0

    @property
    def relay_bytes(self) -> int:
        """Bytes that an instruction transfers which only forwards tokens."""
        return 0

    @property
    def megahertz(self) -> int:
        """The clock frequency in MHz."""
        return 100

    def reads_out(self, ops: Sequence[Operation]) -> bool:
        """Whether a store instruction can apply some operators of the graph to the accumulators.

        Such operators are fused into the store, and the accelerator's rule chooses the intrinsic
        that stores (see `MatrixContraction`).

        Args:
            ops: elementwise operators. The first reads the accumulators, each other one its
                predecessor; their other operands are constants, either a scalar or one value per
                channel.
        """
        return False

    def transfer_cycles(self, rows: int, row_bytes: int) -> int:
        """Return the cycles for which a transfer of rows occupies the port."""
        return rows * row_bytes

    def issue_cycles(self, issue: Issue) -> int:
        """Return the cycles for which an instruction occupies its unit, without port cycles."""
        return 0 if issue.rows else issue.steps
