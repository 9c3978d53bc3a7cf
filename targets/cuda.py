"""CUDA GPUs, for which kernels are compiled to PTX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tcopt.support.accuracy import PRECISE
from tcopt.support.pipelines.pass_specs import PassSpec, specs
from tcopt.support.pipelines.phases import Phase
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.target_registry import register_target
from tcopt.targets.gpu_blocks import GpuKind

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tcopt.dialects.target import GpuTargetAttr
    from tcopt.runtime.device.interface import Device
    from tcopt.runtime.run_options import DeviceName

_ALL_CUDA = "fp16,fp64,dp4a,ptx78"


def _cuda(
    arch: str,
    features: str,
    *,
    cores: int,
    multiply_adds: int,
    matrix_rate: int,
    memory_rate: int,
    core_threads: int,
    core_shared: int,
    dynamic_shared: int,
    megahertz: int,
) -> GpuTargetAttr:
    from tcopt.dialects.target import GpuTargetAttr

    return GpuTargetAttr(
        "cuda",
        arch,
        ",".join(filter(None, (_ALL_CUDA, features))),
        warp=32,
        max_threads=1024,
        registers=255,
        shared=48 << 10,
        vector_bits=128,
        cores=cores,
        multiply_adds=multiply_adds,
        memory_rate=memory_rate,
        core_threads=core_threads,
        core_shared=core_shared << 10,
        dynamic_shared=dynamic_shared << 10,
        matrix_rate=matrix_rate,
        start=2200,
        megahertz=megahertz,
    )


_COLUMNS = (
    "cores",
    "multiply_adds",
    "matrix_rate",
    "memory_rate",
    "core_threads",
    "core_shared",
    "dynamic_shared",
    "megahertz",
)


def _devices() -> Mapping[str, GpuTargetAttr]:
    volta = "mma_f16"
    turing = f"{volta},mma_s8,ldmatrix"
    ampere = f"{turing},mma_bf16,mma_tf32,cp_async"
    devices = {
        "sm_70": (volta, 80, 64, 8, 588, 2048, 96, 96, 1530),
        "sm_75": (turing, 72, 64, 8, 380, 1024, 64, 64, 1770),
        "sm_80": (ampere, 108, 64, 16, 1103, 2048, 164, 163, 1410),
        "sm_86": (ampere, 84, 128, 4, 541, 1536, 100, 99, 1730),
        "sm_89": (ampere, 128, 128, 4, 400, 1536, 100, 99, 2520),
        "sm_90": (ampere, 132, 128, 10, 1692, 2048, 228, 227, 1980),
    }
    return {
        arch: _cuda(arch, features, **dict(zip(_COLUMNS, numbers, strict=True)))
        for arch, (features, *numbers) in devices.items()
    }


DEVICES: Registry[str, GpuTargetAttr] = Registry("CUDA device", _devices, in_keys=True)
"""CUDA devices by compute capability, such as `sm_80` for an A100.

`shared` is the static limit of a kernel; up to `dynamic_shared` bytes are requested at launch. All
devices allow 255 registers per thread. `cores` is the number of multiprocessors of the largest
device of an architecture, `megahertz` its boost clock, and the memory rate its bandwidth divided by
that. The per-core numbers come from the tables "Technical Specifications per Compute Capability"
and "Arithmetic Instructions" of NVIDIA's CUDA C++ Programming Guide; the matrix rate is that of
dense f16 products accumulated in f32. For `sm_90` it is the rate of `mma.sync`, about 60 % of that
of `wgmma`. `start` was measured on an H200: 1.1 us from one empty launch of a graph to the next.
"""


@register_target
class CudaKind(GpuKind):
    """NVIDIA GPUs. `cuda` alone is this machine's GPU or the closest older one in `DEVICES`."""

    name = "cuda"
    machines = DEVICES
    precisions = (PRECISE, "f16", "bf16")
    capabilities = ("shuffle",)

    def attribute(self, machine: str = "") -> GpuTargetAttr:
        found = super().attribute(machine or self._local())
        assert isinstance(found, self.facts)
        return found

    def pipeline(self, machine: str, accuracy: str, precision: str) -> list[Phase]:
        return super().pipeline(machine or self._local(), accuracy, precision)

    def last_passes(self) -> Iterable[PassSpec]:
        # PTX lacks most math functions, which other devices provide.
        return specs("expand-math")

    def source(self, module: ModuleOp) -> str:
        from tcopt.backends.ptx.source import write_ptx

        return write_ptx(module, planned=True)

    def device(self) -> Device:
        from tcopt.runtime.device.cuda import cuda_device

        return cuda_device()

    def device_named(self, which: DeviceName) -> Device:
        from tcopt.runtime.device.cuda import cuda_device

        return cuda_device(which)

    def machine_of(self, which: DeviceName) -> str:
        self.device_named(which)
        return self._local(which)

    def _local(self, which: DeviceName | None = None) -> str:
        """Return the newest known device that a device can run, or the default architecture."""
        from tcopt.backends.ptx.names import DEFAULT_ARCH
        from tcopt.runtime.device.cuda import local_capability

        found = local_capability(which) or 0
        known = [int(name[3:]) for name in self.machines if name.startswith("sm_")]
        nearest = max((number for number in known if number <= found), default=None)
        return DEFAULT_ARCH if nearest is None else f"sm_{nearest}"
