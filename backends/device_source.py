"""The kernels of a module as the compiler of their device takes them."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tcopt.dialects.target import GpuTargetAttr
from tcopt.support.errors import UnsupportedError


def device_source(module: ModuleOp, target: GpuTargetAttr) -> str:
    """OpenCL C or PTX of a module's kernels, which are given buffers of a memory plan.

    Raises:
        UnsupportedError: an op or a type has no form there.
    """
    if target.api.data == "opencl":
        from tcopt.backends.opencl.source import write_source

        return write_source(module)
    if target.api.data == "cuda":
        from tcopt.backends.ptx.source import write_ptx

        return write_ptx(module, target, planned=True)
    raise UnsupportedError(f"kernels for {target.api.data} have no form as text")
