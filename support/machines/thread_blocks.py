"""Facts of processors that run blocks of threads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
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
        core_shared: bytes of shared memory per core; 0 for twice `shared`.
        matrix_rate: throughput of f16 matrix instructions relative to f32 multiply-adds.
        near_rate: bytes per cycle that a core loads from its caches and shared memory.
        latency: cycles of a load from memory.
        start: cycles from the end of a launch until the next one occupies all cores.
        megahertz: the clock frequency in MHz.
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
    near_rate: int = 128
    latency: int = 400
    start: int = 4000
    megahertz: int = 1400
    shuffles: bool = False

    @property
    def peak(self) -> int:
        return self.multiply_adds

    @property
    def kernel_rate(self) -> int:
        return self.memory_rate
