"""`#target.cpu`: a CPU."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target.facts import TARGET_ATTRIBUTE, check_least
from tcopt.dialects.target.hardware import VectorUnits
from tcopt.dialects.target.interface import TargetFacts
from tcopt.support.machines.cpu_target import CpuTarget


@irdl_attr_definition
class CpuTargetAttr(TargetFacts):
    """A CPU: the instruction set to generate code for, and the sizes that schedules depend on.

    - `triple`, `cpu`, `features`: in LLVM's notation. `features` is `+a,-b,...` and includes all
      features of `cpu` that code may use, so it determines which machines can run the code.
    - `vector_bits`: width of a vector register. `registers`: number of vector registers.
    - `l1`, `l2`, `l3`: data cache sizes in bytes, l1 and l2 per core, l3 for the whole chip; 0 if
      absent.
    - `cores`: threads that can run at once.
    - `fma_units`: vector multiply-adds that a core can issue per cycle.
    """

    name = "target.cpu"
    DEFAULTS: ClassVar = {"cpu": "generic", "features": "", "l3": 0, "cores": 1, "fma_units": 2}
    LEFT_OUT: ClassVar = ("fma_units",)

    triple: StringAttr = param_def()
    cpu: StringAttr = param_def()
    features: StringAttr = param_def()
    vector_bits: IntAttr = param_def()
    registers: IntAttr = param_def()
    l1: IntAttr = param_def()
    l2: IntAttr = param_def()
    l3: IntAttr = param_def()
    cores: IntAttr = param_def()
    fma_units: IntAttr = param_def()

    def __init__(
        self,
        triple: str,
        cpu: str = "generic",
        features: str = "",
        *,
        vector_bits: int,
        registers: int,
        l1: int,
        l2: int,
        l3: int = 0,
        cores: int = 1,
        fma_units: int = 2,
    ):
        numbers = (vector_bits, registers, l1, l2, l3, cores, fma_units)
        super().__init__(
            StringAttr(triple), StringAttr(cpu), StringAttr(features), *map(IntAttr, numbers)
        )

    @classmethod
    def of(cls, target: CpuTarget) -> CpuTargetAttr:
        """Return the attribute with these values."""
        return cls(**asdict(target))

    def values(self) -> CpuTarget:
        """Return the parameters as plain values."""
        return CpuTarget(**cast("dict[str, Any]", self.facts()))

    def verify(self) -> None:
        if self.triple.data.count("-") < 1:
            raise VerifyException(f'triple "{self.triple.data}" should be arch-vendor-os')
        for feature in filter(None, self.features.data.split(",")):
            if feature[0] not in "+-" or len(feature) < 2:
                raise VerifyException(f'feature "{feature}" should start with + or -')
        bits = self.vector_bits.data
        if bits < 32 or bits & (bits - 1):
            raise VerifyException(f"vector_bits = {bits} should be a power of two of at least 32")
        check_least(self, registers=1, cores=1, fma_units=1, l1=0, l2=0, l3=0)
        sizes = [size for size in (self.l1.data, self.l2.data, self.l3.data) if size]
        if sizes != sorted(sizes):
            raise VerifyException("cache sizes should grow from l1 to l3")

    @property
    def kind(self) -> str:
        return "cpu"

    @property
    def capabilities(self) -> frozenset[str]:
        """The architecture and its enabled features, as hardware intrinsics require them."""
        return self.values().capabilities

    @property
    def vectors(self) -> VectorUnits:
        """The vector registers and caches of the CPU."""
        return VectorUnits(
            self.vector_bits.data,
            self.registers.data,
            self.cores.data,
            self.l1.data,
            self.l2.data,
            self.l3.data,
            self.fma_units.data,
        )

    @property
    def has_fused_multiply_add(self) -> bool:
        """Whether the CPU has FMA instructions; on x86 this depends on its features."""
        if not self.triple.data.startswith(("x86_64", "i686", "i386")):
            return True
        return not self.capabilities.isdisjoint(("fma", "avx512f", "fma4"))


def cpu_target_of(module: ModuleOp) -> CpuTargetAttr | None:
    """Return the CPU target of a module, or None."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    return target if isinstance(target, CpuTargetAttr) else None
