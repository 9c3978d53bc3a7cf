"""GPUs that OpenCL reaches: kernels in OpenCL C."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from tcopt.support.accuracy import PRECISE
from tcopt.targets.gpu_blocks import GpuKind

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tcopt.dialects.target import GpuTargetAttr
    from tcopt.runtime.device.interface import Device


class OpenCLKind(GpuKind):
    """Devices with a driver for OpenCL."""

    name = "opencl"
    precisions = (PRECISE, "f16")
    names_in_code = True

    @property
    def machines(self) -> MutableMapping[str, GpuTargetAttr]:
        from tcopt.backends.named_gpus import OPENCL_DEVICES

        return OPENCL_DEVICES

    def source(self, module: ModuleOp) -> str:
        from tcopt.backends.opencl.source import write_source

        return write_source(module)

    def device(self) -> Device:
        from tcopt.runtime.device.opencl import opencl_device

        return opencl_device()


TARGET = OpenCLKind()
