"""The machine model: facts of processors, and the time that work takes on them.

Cost models of schedule rules, graph passes and tools count the work of the loops that code would
get. How long it takes is computed here, from facts of the target: `VectorUnits.cycles` for a piece
of code in a core, `kernel_cycles` for a whole kernel on any processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tcopt.support.arithmetic.columns import Column, most, where

L2_SHARE = 0.7
"""Vectors per cycle that L2 delivers to most cores. With AVX2 on Zen 4, five vectors for two rows
take 7 cycles a step, although 10 multiply-adds take 5."""

L2_BITS = 256
"""Minimum width of the vectors that L2 delivers at this rate."""

SCALAR_LOADS = 2
"""Scalars that a core loads per cycle."""


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
    l2_rate: int = 0
    l3_rate: int = 8
    memory_rate: int = 4
    start: int = 1000
    megahertz: int = 2000

    def lanes(self, bits: int = 32) -> int:
        """Return the number of elements of a given width that one vector holds."""
        return max(1, self.vector_bits // bits)

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

    def rate(self, size: Column) -> Column:
        """Return the bytes per cycle at which a core rereads data of some size, beyond L1."""
        far = where(size <= self.l3, self.l3_rate, self.memory_rate)
        return where(size <= self.l2, self.near_rate, far)

    def cycles(
        self,
        *,
        products: Column,
        vectors: Column = 0,
        scalars: Column = 0,
        others: Column = 0,
        chain: float = 0,
    ) -> Column:
        """Return the cycles of a piece of code in a core: the time of its busiest resource.

        Args:
            products: vector operations of the multiply-add units.
            vectors: vectors loaded from L1 or L2.
            scalars: scalars loaded from L1 and broadcast.
            others: further instructions; negative if others include loads.
            chain: multiply-adds that depend on each other.
        """
        return most(
            products / self.fma_units,
            vectors / self.vector_loads + scalars / SCALAR_LOADS,
            chain * self.fma_latency,
            (products + vectors + scalars + others) / self.issue,
        )
