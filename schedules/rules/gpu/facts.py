"""Facts about the target for GPU rules."""

from __future__ import annotations

from dataclasses import dataclass, fields

from xdsl.ir import Attribute

from tcopt.dialects.target import TargetFacts, ThreadBlocks
from tcopt.schedules.rules.rule import target_facts
from tcopt.support.arithmetic.columns import Column, least, most
from tcopt.support.errors import UnsupportedError

WORD_BITS = 32
"""Bits of a register."""

LIKELY_THREADS = 256
"""Threads of a block that leave room for other blocks on the same core."""

ADDRESSES = 32
"""Approximate registers of a thread in addition to its sums and the operands loaded for them."""


@dataclass(frozen=True, kw_only=True)
class GpuFacts(ThreadBlocks):
    """Parameters of the target for GPU rules, and quantities derived from them.

    Attributes:
        capabilities: features that hardware intrinsics require.
    """

    capabilities: frozenset[str] = frozenset()

    def block_threads(self, work_items: int) -> int:
        """Return the number of threads for a block: all that fit, fewer if there is little work."""
        threads = min(self.max_threads, LIKELY_THREADS)
        while threads > self.warp and threads // 2 >= work_items:
            threads //= 2
        return threads

    @property
    def in_lockstep(self) -> bool:
        """Whether adjacent threads run in lockstep.

        Otherwise threads are loops on a CPU, which vectorises within each thread.
        """
        return self.warp > 1

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
        most = max(self.vector_bits // bits, 1)
        least = self.words if self.in_lockstep else 1
        while most > least and row % most:
            most //= 2
        return most if row % most == 0 else 1

    @property
    def running(self) -> int:
        """Number of threads that run concurrently."""
        return self.cores * min(self.max_threads, LIKELY_THREADS)

    def rounds(self, blocks: Column) -> Column:
        """Return the maximum number of blocks that one core runs, one after the other."""
        return -(-blocks // self.cores)

    def resident(self, blocks: Column, threads: Column, numbers: Column, shared: Column) -> Column:
        """Return the number of blocks that are resident on a core, which hide each other's latency.

        Args:
            blocks: blocks of the launch.
            threads: threads of a block.
            numbers: values in registers of a thread.
            shared: shared memory of a block in bytes.
        """
        registers = threads * least(numbers + ADDRESSES, self.registers)
        by_registers = self.registers * LIKELY_THREADS // registers
        by_shared = self.core_shared // most(shared, 1)
        room = least(self.core_threads // threads, by_registers, by_shared)
        return most(least(room, self.rounds(blocks)), 1)

    @property
    def accumulators(self) -> int:
        """Maximum number of accumulators of a thread, leaving room for operands and addresses."""
        return self.registers // 2


@target_facts("gpu")
def gpu_facts(target: Attribute | None) -> GpuFacts:
    """Return the facts passed to GPU rules for a target."""
    blocks = target.threads if isinstance(target, TargetFacts) else None
    if blocks is None:
        raise UnsupportedError(
            f"rules for blocks of threads do not suit {target}",
            hint="its attribute should answer `threads`, or name other `rules`",
        )
    assert isinstance(target, TargetFacts)
    numbers = {each.name: getattr(blocks, each.name) for each in fields(ThreadBlocks)}
    return GpuFacts(**numbers, capabilities=target.capabilities)
