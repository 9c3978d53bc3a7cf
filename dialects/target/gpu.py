"""`#target.gpu`: a device that runs blocks of threads."""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target.facts import TARGET_ATTRIBUTE, check_least, defaults_of
from tcopt.dialects.target.interface import TargetFacts
from tcopt.support.machines.thread_blocks import ThreadBlocks
from tcopt.support.registries.target_registry import TARGETS

_DEFAULTS = defaults_of(
    ThreadBlocks, ("warp", "max_threads", "registers", "shared", "vector_bits", "capabilities")
)


@irdl_attr_definition
class GpuTargetAttr(TargetFacts):
    """A device that runs blocks of threads.

    - `api`: how the device is programmed: a kind of target, such as `opencl` or `cuda`.
    - `arch`: the device's architecture, such as `sm_80`.
    - `features`: instructions beyond 32-bit arithmetic, `fp16,fp64,dp4a,...`; for CUDA also the
      PTX version, `ptx78`.
    - `warp`: threads that run in lockstep; 1 if there are no warps.
    - `max_threads`: maximum threads per block. `registers`: 32-bit registers per thread.
    - `shared`: bytes of shared memory per block.
    - `vector_bits`: width of the widest load of a thread.
    - `cores`: number of cores (SMs), each of which runs at least one block.
    - `multiply_adds`: f32 multiply-adds per core and cycle.
    - `memory_rate`: bytes per cycle between memory and all cores together.
    - `core_threads`: maximum resident threads per core, over all its blocks.
    - `core_shared`: bytes of shared memory per core; 0 for twice `shared`.
    - `dynamic_shared`: bytes of shared memory per block that a launch can request; 0 for `shared`.
    - `matrix_rate`: throughput of f16 matrix instructions, if there are any, relative to f32
      multiply-adds.
    - `dot_rate`: throughput of dot products of bytes, if there are any, relative to f32
      multiply-adds.
    - `near_rate`, `far_rate`: bytes per cycle that a core loads from its caches and shared memory,
      and from L2 or memory.
    - `latency`: cycles of a load from memory. `in_flight`: independent loads of a thread that are
      in flight. `sector`: bytes that are moved for a single element.
    - `chain`: cycles from an instruction to one that needs its result.
    - `load`, `copy`, `barrier`: time that a load from memory, copying a word to shared memory, and
      waiting for the other threads of a block take from a thread, in multiply-adds.
    - `near_lanes`: threads of a core that load from shared memory in a cycle.
    - `copy_load`: cycles of a core for a load of a warp that is stored in shared memory, with its
      index arithmetic.
    - `step`, `copy_step`: cycles of a thread from an instruction to the next one, and from a load
      that it stores in shared memory to the next one.
    - `start`: cycles from the end of a launch until the next one occupies all cores.
    - `megahertz`: the clock frequency.

    All facts from `core_threads` on are omitted from the text if they have their defaults.
    """

    name = "target.gpu"
    DEFAULTS: ClassVar = {"arch": "generic", "features": "", **_DEFAULTS}
    LEFT_OUT: ClassVar = tuple(
        name for name in _DEFAULTS if name not in ("cores", "multiply_adds", "memory_rate")
    )

    api: StringAttr = param_def()
    arch: StringAttr = param_def()
    features: StringAttr = param_def()
    warp: IntAttr = param_def()
    max_threads: IntAttr = param_def()
    registers: IntAttr = param_def()
    shared: IntAttr = param_def()
    vector_bits: IntAttr = param_def()
    cores: IntAttr = param_def()
    multiply_adds: IntAttr = param_def()
    memory_rate: IntAttr = param_def()
    core_threads: IntAttr = param_def()
    core_shared: IntAttr = param_def()
    dynamic_shared: IntAttr = param_def()
    matrix_rate: IntAttr = param_def()
    dot_rate: IntAttr = param_def()
    near_rate: IntAttr = param_def()
    far_rate: IntAttr = param_def()
    latency: IntAttr = param_def()
    in_flight: IntAttr = param_def()
    sector: IntAttr = param_def()
    chain: IntAttr = param_def()
    load: IntAttr = param_def()
    copy: IntAttr = param_def()
    barrier: IntAttr = param_def()
    near_lanes: IntAttr = param_def()
    copy_load: IntAttr = param_def()
    step: IntAttr = param_def()
    copy_step: IntAttr = param_def()
    start: IntAttr = param_def()
    megahertz: IntAttr = param_def()

    def __init__(self, api: str, arch: str = "generic", features: str = "", **numbers: int):
        super().__init__(
            *self.parameters_of({"api": api, "arch": arch, "features": features, **numbers})
        )

    @property
    def kind(self) -> str:
        return self.api.data

    @property
    def rules(self) -> str:
        return "gpu"

    def has(self, feature: str) -> bool:
        """Whether the device has a feature."""
        return feature in self.features.data.split(",")

    @property
    def threads(self) -> ThreadBlocks:
        """The parameters of its thread blocks."""
        facts = self.facts()
        facts["core_shared"] = self.core_shared.data or 2 * self.shared.data
        known = {each.name for each in fields(ThreadBlocks)}
        numbers = {name: int(value) for name, value in facts.items() if name in known}
        return ThreadBlocks(**numbers, capabilities=self.capabilities)

    @property
    def capabilities(self) -> frozenset[str]:
        """What intrinsics may require: the API, the capabilities that all devices of the API have,
        and the device's features."""
        kind = TARGETS.get(self.api.data)
        common = () if kind is None else kind.capabilities
        features = filter(None, self.features.data.split(","))
        return frozenset({self.api.data, *common, *features})

    def verify(self) -> None:
        known = [kind.name for kind in TARGETS.values() if issubclass(kind.facts, GpuTargetAttr)]
        if self.api.data not in known:
            raise VerifyException(f'api "{self.api.data}" should be one of {", ".join(known)}')
        check_least(self, warp=1, max_threads=1, registers=1, shared=0, vector_bits=32, cores=1)
        check_least(self, multiply_adds=1, memory_rate=1, core_threads=1, matrix_rate=1)
        check_least(
            self, core_shared=0, dynamic_shared=0, dot_rate=1, near_rate=1, far_rate=1, latency=1
        )
        check_least(self, in_flight=1, sector=1, chain=1, load=0, copy=0, barrier=0)
        check_least(self, near_lanes=1, copy_load=0, step=1, copy_step=0)
        check_least(self, start=0, megahertz=1)
        if self.max_threads.data % self.warp.data:
            raise VerifyException(
                f"max_threads = {self.max_threads.data} should be whole warps of {self.warp.data}"
            )


def gpu_target_of(module: ModuleOp) -> GpuTargetAttr | None:
    """Return the GPU target of a module, or None."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    return target if isinstance(target, GpuTargetAttr) else None
