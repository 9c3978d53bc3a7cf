"""The device that a target's code runs on."""

from __future__ import annotations

from tcopt.dialects.target import GpuTargetAttr
from tcopt.runtime.device.interface import Device
from tcopt.support.errors import UnsupportedError


def device_for(target: GpuTargetAttr) -> Device:
    """This machine's device for a target, by the way its code is reached.

    Raises:
        UnsupportedError: there is none, or the package for it is not installed.
    """
    if target.api.data == "opencl":
        from tcopt.runtime.device.opencl import opencl_device

        return opencl_device()
    if target.api.data == "cuda":
        from tcopt.runtime.device.cuda import cuda_device

        return cuda_device()
    raise UnsupportedError(f"there is no runtime for {target.api.data}")
