"""What GPU rules know of their target."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute

from tcopt.dialects.target import GpuTargetAttr
from tcopt.schedules.rules import target_facts


@dataclass(frozen=True)
class GpuFacts:
    """Numbers that GPU rules use.

    Attributes:
        warp: threads that run in lockstep.
        max_threads: most threads of a block.
        registers: 32-bit registers of one thread.
        shared: bytes that the threads of a block share.
        vector_bits: the widest load of one thread.
        cores: blocks that run at once.
    """

    warp: int
    max_threads: int
    registers: int
    shared: int
    vector_bits: int
    cores: int

    def block_threads(self, work_items: int) -> int:
        """A good number of threads for a block: all that fit, fewer where there is little work."""
        threads = self.max_threads
        while threads > self.warp and threads // 2 >= work_items:
            threads //= 2
        return threads


@target_facts("gpu")
def gpu_facts(target: Attribute | None) -> GpuFacts:
    """What GPU rules are given for a target."""
    assert isinstance(target, GpuTargetAttr)
    numbers = (target.warp, target.max_threads, target.registers)
    sizes = (target.shared, target.vector_bits, target.cores)
    return GpuFacts(*(number.data for number in (*numbers, *sizes)))
