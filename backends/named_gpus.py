"""GPU targets that can be named.

Shared memory of CUDA devices is what a kernel can declare; more needs a launch that asks for it.
All have 255 registers a thread, and as many blocks run at once as there are multiprocessors in
the largest device of the architecture. Its memory's bandwidth is divided by its boost clock.
"""

from __future__ import annotations

from tcopt.dialects.target import GpuTargetAttr
from tcopt.support.errors import InputError
from tcopt.support.registration import Registry

_ALL_CUDA = "fp16,fp64,dp4a,ptx78"


def _cuda(
    arch: str, cores: int, multiply_adds: int, memory_rate: int, features: str = ""
) -> GpuTargetAttr:
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
    )


OPENCL_DEVICES: Registry[str, GpuTargetAttr] = Registry("OpenCL device", in_keys=True)
"""`opencl` has what nearly every OpenCL device has, `mali` what those of the Mali
family have, whose memory is the CPU's; their compilers make dot products of sums of products of
bytes where there are any."""

CUDA_DEVICES: Registry[str, GpuTargetAttr] = Registry("CUDA device", in_keys=True)
"""`sm_80` is an A100 and so on."""

_OWN: dict[str, GpuTargetAttr] = {
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
    "sm_70": _cuda("sm_70", 80, 64, 588, "mma_f16"),
    "sm_75": _cuda("sm_75", 72, 64, 380, "mma_f16,mma_s8,ldmatrix"),
    "sm_80": _cuda("sm_80", 108, 64, 1103, "mma_f16,mma_s8,ldmatrix,mma_bf16,mma_tf32,cp_async"),
    "sm_86": _cuda("sm_86", 84, 128, 541, "mma_f16,mma_s8,ldmatrix,mma_bf16,mma_tf32,cp_async"),
    "sm_89": _cuda("sm_89", 128, 128, 400, "mma_f16,mma_s8,ldmatrix,mma_bf16,mma_tf32,cp_async"),
    "sm_90": _cuda("sm_90", 132, 128, 1692, "mma_f16,mma_s8,ldmatrix,mma_bf16,mma_tf32,cp_async"),
}
for _name, _device in _OWN.items():
    (CUDA_DEVICES if _device.kind == "cuda" else OPENCL_DEVICES).add(_name, _device)

DEFAULT_CUDA = "sm_80"
"""What PTX is for where nothing names a device; newer devices take it too."""


def named_gpu(name: str) -> GpuTargetAttr:
    """A device by its name.

    Raises:
        InputError: there is none of it.
    """
    for devices in (OPENCL_DEVICES, CUDA_DEVICES):
        if name in devices:
            return devices[name]
    known = ", ".join([*OPENCL_DEVICES, *CUDA_DEVICES])
    raise InputError(f"unknown GPU target '{name}'", hint=f"known targets: {known}")
