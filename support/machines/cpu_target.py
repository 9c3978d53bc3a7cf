"""Target CPU as plain values; the counterpart of `#target.cpu` outside of IR."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache

from tcopt.support.machines.machine import VectorUnits


@dataclass(frozen=True)
class CpuTarget(VectorUnits):
    """A CPU; see `dialects.target.CpuTargetAttr` for the fields."""

    triple: str
    cpu: str = "generic"
    features: str = ""

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


@cache
def _capabilities(machine: str, features: str) -> frozenset[str]:
    present = (name[1:] for name in features.split(",") if name.startswith("+"))
    return frozenset([machine, *present])
