"""A CPU to generate code for, as plain values: `#target.cpu` outside of IR."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache


@dataclass(frozen=True)
class CpuTarget:
    """A CPU; see `dialects.target.CpuTargetAttr`, which says the same within a module."""

    triple: str
    cpu: str = "generic"
    features: str = ""
    vector_bits: int = 128
    registers: int = 16
    l1: int = 0
    l2: int = 0
    l3: int = 0
    cores: int = 1
    fma_units: int = 2

    def facts(self) -> dict[str, str | int]:
        """The values by name, as JSON has them."""
        return asdict(self)

    @property
    def machine(self) -> str:
        """The architecture, such as `x86_64`."""
        return self.triple.partition("-")[0]

    @property
    def capabilities(self) -> frozenset[str]:
        """The architecture and the features it has, as hardware intrinsics ask for them."""
        return _capabilities(self.machine, self.features)

    def vector_lanes(self, bits: int = 32) -> int:
        """How many elements of the given width one vector register holds."""
        return max(1, self.vector_bits // bits)


@cache
def _capabilities(machine: str, features: str) -> frozenset[str]:
    present = (name[1:] for name in features.split(",") if name.startswith("+"))
    return frozenset([machine, *present])
