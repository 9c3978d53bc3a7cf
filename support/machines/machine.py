"""The machine model: facts of processors, and the time that work takes on them.

Cost models of schedule rules, graph passes and tools count the work of the loops that code would
get. How long it takes is computed here, from facts of the target: `VectorUnits.cycles` for a piece
of code in a core, `kernel_cycles` for a whole kernel on any processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tcopt.support.arithmetic.columns import Column, most, where
from tcopt.support.machines.alignment import ALIGNMENT

L2_SHARE = 0.7
"""Vectors per cycle that L2 delivers to most cores. With AVX2 on Zen 4, five vectors for two rows
take 7 cycles a step, although 10 multiply-adds take 5."""

L2_BITS = 256
"""Minimum width of the vectors that L2 delivers at this rate."""

SCALAR_LOADS = 2
"""Scalars that a core loads per cycle."""

LOOP = 3
"""Instructions of an iteration of a loop that is not unrolled: count, compare, branch."""

CHAIN = 1.375
"""Latencies of a multiply-add that a step of a chain takes: with just enough chains to hide one,
instructions are not issued in the best order."""

LOAD = 0.1
"""Cycles by which a load delays arithmetic, if both have enough units."""

EXPOSED = 0.25
"""Fraction of a transfer from beyond L2 that computation does not hide, although it takes longer.
"""

NEAR_WAIT = 0.3
"""Cycles for which computation waits for a line of a single stream from L2, which is prefetched."""


class Machine(Protocol):
    """Facts that all processors have."""

    @property
    def cores(self) -> int:
        """Cores that run at once."""
        ...

    @property
    def peak(self) -> int:
        """f32 multiply-adds per core and cycle."""
        ...

    @property
    def kernel_rate(self) -> int:
        """Bytes per cycle at which a kernel moves its arguments."""
        ...

    @property
    def start(self) -> int:
        """Cycles until all cores work on a kernel."""
        ...

    @property
    def megahertz(self) -> int:
        """The clock frequency in MHz."""
        ...


def kernel_cycles(
    machine: Machine, operations: Column, moved: Column, *, cores: int = 1, starts: int = 0
) -> Column:
    """Return the cycles of a kernel by a roofline: compute or transfer time, plus starts.

    Args:
        operations: operations on f32 elements; a multiply-add is one.
        moved: bytes of its arguments.
        cores: cores that share the operations.
        starts: number of launches or parallel regions.
    """
    compute = operations / (machine.peak * cores)
    return most(compute, moved / machine.kernel_rate) + starts * machine.start


def nanoseconds(cycles: Column, machine: Machine) -> Column:
    """Convert cycles of a processor to nanoseconds."""
    return cycles * 1000 / machine.megahertz


@dataclass(frozen=True, kw_only=True)
class VectorUnits:
    """Cores with vector instructions.

    The defaults describe a core with AVX2; rates are sustained during computation.

    Attributes:
        vector_bits: width of a vector register.
        registers: number of vector registers.
        cores: threads that can run at once.
        l1, l2: data cache sizes of a core in bytes; 0 if absent.
        l3: size of the shared cache in bytes; 0 if absent.
        fma_units: vector multiply-adds that a core can issue per cycle.
        fma_latency: cycles from a multiply-add to another one that needs its result.
        loads: loads that a core can issue per cycle.
        issue: instructions that a core can issue per cycle.
        branch: cycles that a core loses by a mispredicted branch.
        l2_rate, l3_rate, memory_rate: bytes per cycle that a core reads from L2, L3 and memory;
            `l2_rate` is 0 for `L2_SHARE` of a vector.
        start: cycles to start and end a parallel region with threads that are awake.
        megahertz: the clock frequency in MHz.
    """

    vector_bits: int = 128
    registers: int = 16
    cores: int = 1
    l1: int = 0
    l2: int = 0
    l3: int = 0
    fma_units: int = 2
    fma_latency: int = 4
    loads: int = 2
    issue: int = 4
    branch: int = 18
    l2_rate: int = 0
    l3_rate: int = 8
    memory_rate: int = 4
    start: int = 1000
    megahertz: int = 2000

    def lanes(self, bits: int = 32) -> int:
        """Return the number of elements of a given width that one vector holds."""
        return max(1, self.vector_bits // bits)

    @property
    def multiplies_by_lane(self) -> bool:
        """Whether a multiply-add can take one lane of a register as a factor."""
        return False

    @property
    def peak(self) -> int:
        return self.fma_units * self.lanes()

    @property
    def kernel_rate(self) -> int:
        """The rate of L3: arguments are rarely in L2, and other cores have written them."""
        return self.l3_rate

    @property
    def vector_loads(self) -> int:
        """Vectors that a core loads per cycle; those that are multiplied in halves are loaded in
        halves."""
        return min(self.loads, self.fma_units)

    @property
    def near_rate(self) -> float:
        """Bytes per cycle that a core reads from L2."""
        return self.l2_rate or L2_SHARE * max(self.vector_bits, L2_BITS) / 8

    def is_near(self, size: Column) -> Column:
        """Whether data that a core rereads stays in L2, through which other data passes too."""
        return size <= self.l2 * 7 // 8

    def rate(self, size: Column) -> Column:
        """Return the bytes per cycle at which a core rereads data of some size, beyond L1."""
        far = where(size <= self.l3, self.l3_rate, self.memory_rate)
        return where(size <= self.l2, self.near_rate, far)

    def exposed(self, size: Column, *, near: Column = False) -> Column:
        """Return the cycles for which computation waits for data that it reads in order.

        Args:
            near: whether the data is in L2, not in L3.
        """
        return where(near, NEAR_WAIT * size / ALIGNMENT, EXPOSED * size / self.l3_rate)

    def cycles(
        self,
        *,
        products: Column = 0,
        vectors: Column = 0,
        scalars: Column = 0,
        folded: Column = 0,
        others: Column = 0,
        chain: float = 0,
    ) -> Column:
        """Return the cycles of a piece of code in a core: the time of its busiest resource.

        Args:
            products: vector operations of the multiply-add units.
            vectors: vectors loaded from L1 or L2.
            scalars: scalars loaded from L1 and broadcast.
            folded: loads among these that are operands of a multiply-add.
            others: further instructions.
            chain: multiply-adds that depend on each other.
        """
        loads = vectors + scalars
        busiest = most(
            products / self.fma_units,
            vectors / self.vector_loads + scalars / SCALAR_LOADS,
            chain * CHAIN * self.fma_latency,
            (products + loads - folded + others) / self.issue,
        )
        # If each multiply-add takes two cycles, its memory operand arrives in time.
        return busiest + LOAD * (loads - folded if self.fma_units == 1 else loads)
