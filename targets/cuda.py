"""GPUs that CUDA reaches: kernels in PTX."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING

from tcopt.support.accuracy import PRECISE
from tcopt.support.pass_specs import PassSpec, specs
from tcopt.support.phases import Phase
from tcopt.targets.gpu_blocks import GpuKind

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tcopt.dialects.target import GpuTargetAttr
    from tcopt.runtime.device.interface import Device


class CudaKind(GpuKind):
    """Devices of NVIDIA. `cuda` alone is this machine's device, or one that newer ones follow."""

    name = "cuda"
    precisions = (PRECISE, "f16", "bf16")
    capabilities = ("shuffle",)

    @property
    def machines(self) -> MutableMapping[str, GpuTargetAttr]:
        from tcopt.backends.named_gpus import CUDA_DEVICES

        return CUDA_DEVICES

    def attribute(self, machine: str = "") -> GpuTargetAttr:
        found = super().attribute(machine or self._local())
        assert isinstance(found, self.facts)
        return found

    def pipeline(self, machine: str, accuracy: str, precision: str) -> list[Phase]:
        return super().pipeline(machine or self._local(), accuracy, precision)

    def last_passes(self) -> Iterable[PassSpec]:
        # Other devices have these functions themselves.
        return specs("expand-math")

    def source(self, module: ModuleOp) -> str:
        from tcopt.backends.ptx.source import write_ptx

        return write_ptx(module, planned=True)

    def device(self) -> Device:
        from tcopt.runtime.device.cuda import cuda_device

        return cuda_device()

    def _local(self) -> str:
        from tcopt.backends.named_gpus import DEFAULT_CUDA
        from tcopt.runtime.device.cuda import local_arch

        return local_arch() or DEFAULT_CUDA


TARGET = CudaKind()
