"""The machine model of processors that run blocks of threads: facts, and the time of launches.

Cost models count the work of a launch (`LaunchWork`), and `ThreadBlocks.launch` returns how long it
takes. Work in a core is counted in multiply-adds, or operations that take as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tcopt.support.arithmetic.columns import Column, ceil_div, least, most, where

WORD_BITS = 32
"""Bits of a register."""

WORD = 4
"""Bytes of a register."""

LIKELY_THREADS = 256
"""Threads of a block that leave room for other blocks on the same core."""

ASYNC_COPIES = "cp_async"
"""Capability of asynchronous copies from memory to shared memory."""

SHUFFLE = "shuffle"
"""Capability of warp shuffles, which exchange values between the threads of a warp."""

ADDRESSES = 32
"""Approximate registers of a thread in addition to its sums and the operands loaded for them."""


@dataclass(frozen=True, kw_only=True)
class LaunchWork:
    """Work of a launch of thread blocks; each a number, or a column for many schedules.

    Attributes:
        blocks: blocks of the launch.
        threads: threads of a block.
        operations: multiply-adds of a thread, or operations that take as long.
        loads: loads of a thread from memory.
        near_loads: loads of a thread from shared memory that `operations` does not include.
        copies: loads of a thread that it stores in shared memory.
        copied: bytes that a block copies from memory to shared memory, if `copies` is not known.
        barriers: times that the threads of a block wait for each other.
        values: values that a thread holds in registers.
        shared: bytes of a block's shared memory.
        near: bytes that a block loads from the caches of its core.
        far: bytes that a block loads from memory or L2.
        in_flight: bytes that a thread has in flight while it loads `far`.
        moved: bytes that all blocks together move from and to memory.
        chain: cycles of one thread, independent of the number of threads; 0 if unknown.
        independent: operations of a thread that are independent of each other, and hide latency
            as those of other threads do.
    """

    blocks: Column
    threads: Column
    operations: Column = 0
    loads: Column = 0
    near_loads: Column = 0
    copies: Column = 0
    copied: Column = 0
    barriers: Column = 0
    values: Column = 0
    shared: Column = 0
    near: Column = 0
    far: Column = 0
    in_flight: Column = WORD
    moved: Column = 0
    chain: Column = 0
    independent: Column = 1


class LaunchCycles(NamedTuple):
    """Cycles of each resource that a launch needs; the busiest one determines its time."""

    computing: Column
    loading: Column
    waiting: Column

    @property
    def total(self) -> Column:
        return most(*self)


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
        dynamic_shared: bytes of shared memory per block that a launch can request; 0 for `shared`.
        matrix_rate: throughput of f16 matrix instructions relative to f32 multiply-adds.
        dot_rate: throughput of dot products of bytes relative to f32 multiply-adds.
        near_rate: bytes per cycle that a core loads from its caches and shared memory.
        far_rate: bytes per cycle that a core loads from L2 or memory.
        latency: cycles of a load from memory.
        in_flight: independent loads of a thread that are in flight.
        sector: bytes that are moved for a single element.
        chain: cycles from an instruction to one that needs its result.
        load, copy, barrier: time that a load from memory, copying a word to shared memory, and
            waiting for the other threads of a block take from a thread, in multiply-adds.
        near_lanes: threads of a core that load from shared memory in a cycle.
        copy_load: cycles of a core for a load of a warp that is stored in shared memory, with its
            index arithmetic.
        step, copy_step: cycles of a thread from an instruction to the next one, and from a load
            that it stores in shared memory to the next one.
        start: cycles from the end of a launch until the next one occupies all cores.
        megahertz: the clock frequency in MHz.
        capabilities: names of what hardware intrinsics and passes require.
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
    dynamic_shared: int = 0
    matrix_rate: int = 8
    dot_rate: int = 4
    near_rate: int = 128
    far_rate: int = 32
    latency: int = 400
    in_flight: int = 4
    sector: int = 32
    chain: int = 4
    load: int = 4
    copy: int = 8
    barrier: int = 64
    near_lanes: int = 27
    copy_load: int = 12
    step: int = 6
    copy_step: int = 80
    start: int = 4000
    megahertz: int = 1400
    capabilities: frozenset[str] = frozenset()

    @property
    def peak(self) -> int:
        return self.multiply_adds

    @property
    def kernel_rate(self) -> int:
        return self.memory_rate

    @property
    def shuffles(self) -> bool:
        """Whether threads of a warp can exchange values without shared memory."""
        return SHUFFLE in self.capabilities

    @property
    def copies_async(self) -> bool:
        """Whether threads can copy to shared memory asynchronously."""
        return ASYNC_COPIES in self.capabilities

    @property
    def most_shared(self) -> int:
        """Maximum bytes of shared memory per block."""
        return max(self.shared, self.dynamic_shared)

    # Threads.

    @property
    def in_lockstep(self) -> bool:
        """Whether adjacent threads run in lockstep.

        Otherwise threads are loops on a CPU, which vectorises within each thread.
        """
        return self.warp > 1

    @property
    def usual_threads(self) -> int:
        """Threads of a block if there is enough work."""
        return min(self.max_threads, LIKELY_THREADS)

    def block_threads(self, work_items: int) -> int:
        """Return the number of threads for a block: all that fit, fewer if there is little work."""
        threads = self.usual_threads
        while threads > self.warp and threads // 2 >= work_items:
            threads //= 2
        return threads

    @property
    def running(self) -> int:
        """Number of threads that run concurrently."""
        return self.cores * self.usual_threads

    def whole_warps(self, threads: Column) -> Column:
        """Return a number of threads rounded up to whole warps."""
        return ceil_div(threads, self.warp) * self.warp

    # Registers and vectors.

    @property
    def accumulators(self) -> int:
        """Maximum number of accumulators of a thread, leaving room for operands and addresses."""
        return self.registers // 2

    @property
    def core_registers(self) -> int:
        """Registers of a core."""
        return self.registers * LIKELY_THREADS

    @property
    def words(self) -> int:
        """Number of 32-bit values that one thread loads at once."""
        return max(self.vector_bits // WORD_BITS, 1)

    def lanes(self, bits: int, row: int = 0) -> int:
        """Return the number of elements of a width that one thread loads at once.

        Args:
            row: length of a row, which must be a multiple of the result; narrow elements get
                narrower vectors if necessary.
        """
        widest = max(self.vector_bits // bits, 1)
        narrowest = self.words if self.in_lockstep else 1
        while widest > narrowest and row % widest:
            widest //= 2
        return widest if row % widest == 0 else 1

    # Time.

    def rounds(self, blocks: Column) -> Column:
        """Return the maximum number of blocks that one core runs, one after the other."""
        return ceil_div(blocks, self.cores)

    def resident(self, blocks: Column, threads: Column, values: Column, shared: Column) -> Column:
        """Return the number of blocks that are resident on a core, which hide each other's latency.

        Threads that are loops run one block at a time.

        Args:
            blocks: blocks of the launch.
            threads: threads of a block.
            values: values that a thread holds in registers.
            shared: shared memory of a block in bytes.
        """
        if not self.in_lockstep:
            return 1
        registers = threads * least(values + ADDRESSES, self.registers)
        by_registers = self.core_registers // registers
        by_shared = where(shared > 0, self.core_shared // most(shared, 1), self.core_threads)
        room = least(self.core_threads // threads, by_registers, by_shared)
        return most(least(room, self.rounds(blocks)), 1)

    def launch(self, work: LaunchWork) -> LaunchCycles:
        """Return the cycles of a launch: of its busiest core, or of memory."""
        rounds, threads = self.rounds(work.blocks), self.whole_warps(work.threads)
        resident = self.resident(work.blocks, threads, work.values, work.shared)
        waits = self.barrier * work.barriers / resident
        # Cycles of a core for each thread.
        near = work.near_loads / self.near_lanes + work.copies * self.copy_load / self.warp
        own = work.operations + self.load * work.loads + near * self.multiply_adds + waits
        # A known chain counts the latency that few threads do not hide.
        exposed = self.exposed(threads * resident * work.independent)
        exposed = where(work.chain > 0, 1, exposed)
        issued = (threads * own + self.copy * work.copied / WORD) * exposed
        flying = work.threads * resident * work.in_flight
        far_rate = least(flying / self.latency, self.far_rate)
        near, far = work.near / self.near_rate, work.far / far_rate
        return LaunchCycles(
            rounds * issued / self.multiply_adds,
            most(rounds * (near + far), work.moved / self.memory_rate),
            work.chain * ceil_div(rounds, resident),
        )

    def exposed(self, threads: Column) -> Column:
        """Return the factor by which operations take longer because few threads hide latency."""
        return 1 + 2 * self.warp / threads

    def scattered(self, step: Column, size: Column) -> Column:
        """Return the factor by which loads take longer whose elements are not adjacent.

        Half of the bytes that are loaded needlessly are used from caches later.

        Args:
            step: bytes between the elements that adjacent threads load.
            size: bytes of an element.
        """
        return most(least(step, self.sector) / size / 2, 1)
