"""OpenCL devices, for which kernels are compiled to OpenCL C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tcopt.support.accuracy import PRECISE
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.target_registry import register_target
from tcopt.targets.gpu_blocks import GpuKind

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tcopt.dialects.target import GpuTargetAttr
    from tcopt.runtime.device.interface import Device
    from tcopt.runtime.run_options import DeviceName


def _devices() -> Mapping[str, GpuTargetAttr]:
    from tcopt.dialects.target import GpuTargetAttr

    return {
        "opencl": GpuTargetAttr(
            "opencl",
            features="fp64,dp4a",
            warp=32,
            max_threads=256,
            registers=128,
            shared=32 << 10,
            vector_bits=128,
            cores=16,
            multiply_adds=64,
            memory_rate=128,
        ),
        "mali": GpuTargetAttr(
            "opencl",
            "mali",
            features="fp16,dp4a",
            warp=16,
            max_threads=256,
            registers=64,
            shared=0,
            vector_bits=128,
            cores=4,
            multiply_adds=32,
            memory_rate=32,
        ),
        "pocl": GpuTargetAttr(
            "opencl",
            "pocl",
            features="fp64",
            warp=1,
            max_threads=64,
            registers=128,
            shared=0,
            vector_bits=256,
            cores=4,
            multiply_adds=16,
            memory_rate=16,
        ),
    }


DEVICES: Registry[str, GpuTargetAttr] = Registry("OpenCL device", _devices, in_keys=True)
"""OpenCL devices by name.

`opencl` has the features that nearly every OpenCL device has, `mali` those of the Mali family,
whose memory is that of the CPU. Their compilers turn sums of byte products into dot-product
instructions where the device has them. `pocl` is a CPU with 256-bit vectors as PoCL uses it: the
threads of a block run one after the other, and shared memory is ordinary memory.
"""


@register_target
class OpenCLKind(GpuKind):
    """Devices with an OpenCL driver."""

    name = "opencl"
    machines = DEVICES
    precisions = (PRECISE, "f16")
    names_in_code = True

    def source(self, module: ModuleOp) -> str:
        from tcopt.backends.opencl.source import write_source

        return write_source(module)

    def device(self) -> Device:
        from tcopt.runtime.device.opencl import opencl_device

        return opencl_device()

    def device_named(self, which: DeviceName) -> Device:
        from tcopt.runtime.device.opencl import opencl_device

        return opencl_device(which)
