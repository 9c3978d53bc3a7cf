"""`#target.cpu`: a CPU."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target.facts import TARGET_ATTRIBUTE, check_least, defaults_of
from tcopt.dialects.target.interface import TargetFacts
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.machines.machine import VectorUnits

_DEFAULTS = defaults_of(VectorUnits, ("vector_bits", "registers", "l1", "l2"))


@irdl_attr_definition
class CpuTargetAttr(TargetFacts):
    """A CPU: the instruction set to generate code for, and the facts that cost models ask.

    - `triple`, `cpu`, `features`: in LLVM's notation. `features` is `+a,-b,...` and includes all
      features of `cpu` that code may use, so it determines which machines can run the code.
    - `vector_bits`: width of a vector register. `registers`: number of vector registers.
    - `l1`, `l2`, `l3`: data cache sizes in bytes, l1 and l2 per core, l3 for the whole chip; 0 if
      absent.
    - `cores`: threads that can run at once.
    - `fma_units`, `loads`, `issue`: vector multiply-adds, loads, and instructions in total that a
      core can issue per cycle.
    - `fma_latency`: cycles from a multiply-add to another one that needs its result.
    - `branch`: cycles lost by a mispredicted branch.
    - `l2_rate`, `l3_rate`, `memory_rate`: bytes per cycle that a core reads from L2, L3 and memory
      while it computes; `l2_rate` is 0 for 0.7 vectors.
    - `start`: cycles to start and end a parallel region. `megahertz`: the clock frequency.

    All facts from `fma_units` on are omitted from the text if they have their defaults.
    """

    name = "target.cpu"
    DEFAULTS: ClassVar = {"cpu": "generic", "features": "", **_DEFAULTS}
    LEFT_OUT: ClassVar = tuple(name for name in _DEFAULTS if name not in ("l3", "cores"))

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
    fma_latency: IntAttr = param_def()
    loads: IntAttr = param_def()
    issue: IntAttr = param_def()
    branch: IntAttr = param_def()
    l2_rate: IntAttr = param_def()
    l3_rate: IntAttr = param_def()
    memory_rate: IntAttr = param_def()
    start: IntAttr = param_def()
    megahertz: IntAttr = param_def()

    @classmethod
    def of(cls, target: CpuTarget) -> CpuTargetAttr:
        """Return the attribute with these values."""
        return cls.of_facts(target.facts())

    def values(self) -> CpuTarget:
        """Return the parameters as plain values."""
        return _values(self)

    def verify(self) -> None:
        if self.triple.data.count("-") < 1:
            raise VerifyException(f'triple "{self.triple.data}" should be arch-vendor-os')
        for feature in filter(None, self.features.data.split(",")):
            if feature[0] not in "+-" or len(feature) < 2:
                raise VerifyException(f'feature "{feature}" should start with + or -')
        bits = self.vector_bits.data
        if bits < 32 or bits & (bits - 1):
            raise VerifyException(f"vector_bits = {bits} should be a power of two of at least 32")
        check_least(self, registers=1, cores=1, l1=0, l2=0, l3=0)
        check_least(
            self, fma_units=1, fma_latency=1, loads=1, issue=1, branch=0, start=0, megahertz=1
        )
        check_least(self, l2_rate=0, l3_rate=1, memory_rate=1)
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
        """The cores of the CPU."""
        return self.values()

    @property
    def has_fused_multiply_add(self) -> bool:
        """Whether the CPU has FMA instructions; on x86 this depends on its features."""
        if not self.triple.data.startswith(("x86_64", "i686", "i386")):
            return True
        return not self.capabilities.isdisjoint(("fma", "avx512f", "fma4"))


@lru_cache(16)
def _values(target: CpuTargetAttr) -> CpuTarget:
    return CpuTarget(**cast("dict[str, Any]", target.facts()))


def cpu_target_of(module: ModuleOp) -> CpuTargetAttr | None:
    """Return the CPU target of a module, or None."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    return target if isinstance(target, CpuTargetAttr) else None
