"""What GPU rules know of their target."""

from __future__ import annotations

from dataclasses import dataclass, fields

from xdsl.ir import Attribute

from tcopt.dialects.target import TargetFacts, ThreadBlocks
from tcopt.schedules.rules.rule import target_facts
from tcopt.support.columns import Column, least, most
from tcopt.support.errors import UnsupportedError

WORD_BITS = 32
"""Of a register."""

LIKELY_THREADS = 256
"""Threads of a block that leave room for others on the same core."""

ADDRESSES = 32
"""Registers of a thread beside its sums and what it loads for them, roughly."""


@dataclass(frozen=True)
class GpuFacts(ThreadBlocks):
    """Numbers that GPU rules use: the target's blocks of threads, and what follows from them.

    Attributes:
        capabilities: what hardware intrinsics ask for.
    """

    capabilities: frozenset[str] = frozenset()

    def block_threads(self, work_items: int) -> int:
        """A good number of threads for a block: all that fit, fewer where there is little work."""
        threads = min(self.max_threads, LIKELY_THREADS)
        while threads > self.warp and threads // 2 >= work_items:
            threads //= 2
        return threads

    @property
    def in_lockstep(self) -> bool:
        """Whether threads next to each other do the same at a time; they are the loops of a CPU
        otherwise, which does the same with the lanes of its vectors."""
        return self.warp > 1

    @property
    def words(self) -> int:
        """32-bit numbers that one thread loads at once."""
        return max(self.vector_bits // WORD_BITS, 1)

    def lanes(self, bits: int, row: int = 0) -> int:
        """Elements of a width that one thread loads at once.

        Args:
            row: of how many elements rows are, which are whole vectors; short numbers make
                narrower ones where that takes it.
        """
        most = max(self.vector_bits // bits, 1)
        least = self.words if self.in_lockstep else 1
        while most > least and row % most:
            most //= 2
        return most if row % most == 0 else 1

    @property
    def running(self) -> int:
        """Threads that run at once."""
        return self.cores * min(self.max_threads, LIKELY_THREADS)

    def rounds(self, blocks: Column) -> Column:
        """How many blocks the busiest core runs: one block more than cores is a round more."""
        return -(-blocks // self.cores)

    def resident(self, blocks: Column, threads: Column, numbers: Column, shared: Column) -> Column:
        """How many blocks a core has at a time, which wait while others compute.

        Args:
            blocks: of the launch.
            threads: of a block.
            numbers: in registers of a thread.
            shared: bytes of a block.
        """
        registers = threads * least(numbers + ADDRESSES, self.registers)
        by_registers = self.registers * LIKELY_THREADS // registers
        by_shared = self.core_shared // most(shared, 1)
        room = least(self.core_threads // threads, by_registers, by_shared)
        return most(least(room, self.rounds(blocks)), 1)

    @property
    def accumulators(self) -> int:
        """Numbers that a thread keeps, beside what it loads and where it is."""
        return self.registers // 2


@target_facts("gpu")
def gpu_facts(target: Attribute | None) -> GpuFacts:
    """What GPU rules are given for a target."""
    blocks = target.threads if isinstance(target, TargetFacts) else None
    if blocks is None:
        raise UnsupportedError(
            f"rules for blocks of threads do not suit {target}",
            hint="its attribute should answer `threads`, or name other `rules`",
        )
    assert isinstance(target, TargetFacts)
    numbers = {each.name: getattr(blocks, each.name) for each in fields(ThreadBlocks)}
    return GpuFacts(**numbers, capabilities=target.capabilities)
