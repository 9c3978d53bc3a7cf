"""Facts about the target for CPU rules, and quantities derived from them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute

from tcopt.dialects.target import TargetFacts
from tcopt.schedules.rules.rule import target_facts


@dataclass(frozen=True)
class CpuFacts:
    """Facts about a CPU that schedule rules use.

    Attributes:
        vector_bits: width of a vector register.
        registers: number of vector registers.
        cores: number of threads that can run concurrently.
        l1, l2: sizes of a core's data caches in bytes.
        l3: size of the shared cache in bytes.
        capabilities: features that hardware intrinsics require.
        fma_units: vector multiply-adds that a core can issue per cycle.
    """

    vector_bits: int
    registers: int
    cores: int
    l1: int = 32768
    l2: int = 262144
    l3: int = 4194304
    capabilities: frozenset[str] = frozenset()
    fma_units: int = 2

    @classmethod
    def of(cls, target: Attribute | None) -> CpuFacts:
        """Return the facts of a target; without one, those that hold for every 64-bit CPU."""
        units = target.vectors if isinstance(target, TargetFacts) else None
        if units is None:
            return cls(128, 16, 1)
        assert isinstance(target, TargetFacts)
        return cls(
            units.bits,
            units.registers,
            units.cores,
            units.l1 or cls.l1,
            units.l2 or cls.l2,
            units.l3 or cls.l3,
            target.capabilities,
            units.fma_units,
        )

    @property
    def multiplies_by_lane(self) -> bool:
        """Whether a multiply-add can take one lane of a register as a factor, as on Arm."""
        return "neon" in self.capabilities

    def lanes(self, bits: int = 32) -> int:
        """Return the number of elements of a width that one vector holds."""
        return max(1, self.vector_bits // bits)


@target_facts("cpu")
def cpu_facts(target: Attribute | None) -> CpuFacts:
    """Return the facts passed to CPU rules for a target."""
    return CpuFacts.of(target)
