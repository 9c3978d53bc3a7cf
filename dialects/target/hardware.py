"""What hardware computes with, in numbers that passes and schedule rules ask for.

A target answers with one of the two, or with neither where it has nothing but scalars.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VectorUnits:
    """Cores whose instructions compute vectors.

    Attributes:
        bits: width of a vector register.
        registers: how many there are.
        cores: threads that can run at once.
        l1, l2: bytes of a core's data caches; 0 where there is none.
        l3: bytes of the cache that cores share.
        fma_units: multiply-adds of whole vectors that a core begins in a cycle.
    """

    bits: int
    registers: int = 16
    cores: int = 1
    l1: int = 0
    l2: int = 0
    l3: int = 0
    fma_units: int = 2

    def lanes(self, bits: int = 32) -> int:
        """Elements of a width that one vector holds."""
        return max(1, self.bits // bits)


@dataclass(frozen=True)
class ThreadBlocks:
    """Cores that run blocks of threads.

    Attributes:
        warp: threads that run in lockstep; 1 where there is no such thing.
        max_threads: most threads of a block.
        registers: 32-bit registers of one thread.
        shared: bytes that the threads of a block share; 0 where that is no nearer than memory.
        vector_bits: the widest load of one thread.
        cores: blocks that run at once, one on each.
        multiply_adds: of f32, that a core does in a cycle.
        memory_rate: bytes that all cores together move from and to memory in a cycle.
        core_threads: threads that a core has room for, of several blocks.
        core_shared: bytes that all blocks on a core share.
        matrix_rate: multiply-adds of f16 by instructions for matrices, in the time of one of f32.
        shuffles: whether the threads of a warp hand values to each other, without shared memory.
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
        entries: how many there are.
        entry_bytes: bytes of one, the unit of addresses.
    """

    entries: int
    entry_bytes: int
