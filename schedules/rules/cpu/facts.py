"""Facts about the target for CPU rules, and quantities derived from them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from xdsl.ir import Attribute

from tcopt.dialects.target import TargetFacts
from tcopt.schedules.rules.rule import target_facts
from tcopt.support.machines.machine import VectorUnits


@dataclass(frozen=True, kw_only=True)
class CpuFacts(VectorUnits):
    """Facts about a CPU that schedule rules use.

    Cache sizes that the target does not state default to a small core's.

    Attributes:
        capabilities: features that hardware intrinsics require.
    """

    l1: int = 32768
    l2: int = 262144
    l3: int = 4194304
    capabilities: frozenset[str] = frozenset()

    @classmethod
    def of(cls, target: Attribute | None) -> CpuFacts:
        """Return the facts of a target; without one, those that hold for every 64-bit CPU."""
        units = target.vectors if isinstance(target, TargetFacts) else None
        if units is None:
            return cls()
        assert isinstance(target, TargetFacts)
        numbers = {each.name: getattr(units, each.name) for each in fields(VectorUnits)}
        sizes = {name: numbers[name] or getattr(cls, name) for name in ("l1", "l2", "l3")}
        return cls(**(numbers | sizes), capabilities=target.capabilities)

    @property
    def multiplies_by_lane(self) -> bool:
        """Whether a multiply-add can take one lane of a register as a factor, as on Arm."""
        return "neon" in self.capabilities


@target_facts("cpu")
def cpu_facts(target: Attribute | None) -> CpuFacts:
    """Return the facts passed to CPU rules for a target."""
    return CpuFacts.of(target)
