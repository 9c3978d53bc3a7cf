"""GPU targets that can be named."""

from __future__ import annotations

from tcopt.dialects.target import GpuTargetAttr
from tcopt.support.errors import InputError

NAMED_GPUS: dict[str, GpuTargetAttr] = {
    "opencl": GpuTargetAttr(
        "opencl",
        features="fp64",
        warp=32,
        max_threads=256,
        registers=128,
        shared=32 << 10,
        vector_bits=128,
        cores=16,
    ),
}
"""Devices by name; `opencl` has what nearly every OpenCL device has."""


def named_gpu(name: str) -> GpuTargetAttr:
    """One of `NAMED_GPUS`.

    Raises:
        InputError: for any other name.
    """
    if name not in NAMED_GPUS:
        known = ", ".join(NAMED_GPUS)
        raise InputError(f"unknown GPU target '{name}'", hint=f"known targets: {known}")
    return NAMED_GPUS[name]
