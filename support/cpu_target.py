"""A CPU to generate code for, as plain values: `#target.cpu` outside of IR."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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
        present = (name[1:] for name in self.features.split(",") if name.startswith("+"))
        return frozenset([self.machine, *present])

    def vector_lanes(self, bits: int = 32) -> int:
        """How many elements of the given width one vector register holds."""
        return max(1, self.vector_bits // bits)
