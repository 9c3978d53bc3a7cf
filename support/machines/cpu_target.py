"""Target CPU as plain values; the counterpart of `#target.cpu` outside of IR."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache


@dataclass(frozen=True)
class CpuTarget:
    """A CPU; see `dialects.target.CpuTargetAttr` for the fields."""

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
        """Return the fields by name as JSON values."""
        return asdict(self)

    @property
    def machine(self) -> str:
        """Architecture, such as `x86_64`."""
        return self.triple.partition("-")[0]

    @property
    def capabilities(self) -> frozenset[str]:
        """The architecture and its features, as queried by hardware intrinsics."""
        return _capabilities(self.machine, self.features)

    def vector_lanes(self, bits: int = 32) -> int:
        """Return the number of elements of a given width in one vector register."""
        return max(1, self.vector_bits // bits)


@cache
def _capabilities(machine: str, features: str) -> frozenset[str]:
    present = (name[1:] for name in features.split(",") if name.startswith("+"))
    return frozenset([machine, *present])
