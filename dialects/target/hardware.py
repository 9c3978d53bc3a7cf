"""Parameters of the hardware that passes and schedule rules use.

A target has one of the two, or neither if it only computes scalars.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VectorUnits:
    """Cores with vector instructions.

    Attributes:
        bits: width of a vector register.
        registers: number of vector registers.
        cores: threads that can run at once.
        l1, l2: data cache sizes of a core in bytes; 0 if absent.
        l3: size of the shared cache in bytes.
        fma_units: vector multiply-adds that a core can issue per cycle.
    """

    bits: int
    registers: int = 16
    cores: int = 1
    l1: int = 0
    l2: int = 0
    l3: int = 0
    fma_units: int = 2

    def lanes(self, bits: int = 32) -> int:
        """Return the number of elements of `bits` bits in a vector."""
        return max(1, self.bits // bits)


@dataclass(frozen=True)
class ThreadBlocks:
    """Cores that run thread blocks.

    Attributes:
        warp: threads that run in lockstep; 1 if there are no warps.
        max_threads: maximum threads per block.
        registers: 32-bit registers per thread.
        shared: bytes of shared memory per block; 0 if it is no faster than global memory.
        vector_bits: width of the widest load of a thread.
        cores: number of cores (SMs), each of which runs at least one block.
        multiply_adds: f32 multiply-adds per core and cycle.
        memory_rate: bytes per cycle between memory and all cores together.
        core_threads: maximum resident threads per core, over all its blocks.
        core_shared: bytes of shared memory per core.
        matrix_rate: throughput of f16 matrix instructions relative to f32 multiply-adds.
        shuffles: whether threads of a warp can exchange values without shared memory.
    """

    warp: int = 1
    max_threads: int = 1
    registers: int = 16
    shared: int = 0
    vector_bits: int = 32
    cores: int = 1
    multiply_adds: int = 64
    memory_rate: int = 8
    core_threads: int = 1024
    core_shared: int = 0
    matrix_rate: int = 8
    shuffles: bool = False


@dataclass(frozen=True)
class PlacedMemory:
    """A memory whose addresses programs choose.

    Attributes:
        entries: number of entries.
        entry_bytes: bytes per entry, the unit of addresses.
    """

    entries: int
    entry_bytes: int
