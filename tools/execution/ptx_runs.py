"""Execution of kernels for CUDA devices by the PTX interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tcopt.backends.ptx.names import entry_name
from tcopt.dialects.gpu_kernels import BLOCK_SIZE, GRID_SIZE, KERNEL, sizes_of
from tcopt.dialects.target import gpu_target_of
from tcopt.tools.execution.native_process import ProcessBuffer, native_process
from tcopt.tools.execution.prepared_code import PreparedCode


def emitter_of(module: ModuleOp, function: Operation) -> str:
    """Return the name of the code generator for a kernel-level function."""
    return "PTX" if runs_as_ptx(module, function) else "LLVM"


def runs_as_ptx(module: ModuleOp, function: Operation) -> bool:
    """Whether a function is a kernel for a CUDA device."""
    target = gpu_target_of(module)
    is_for_cuda = target is not None and "cuda" in target.capabilities
    return is_for_cuda and KERNEL in function.attributes


def launch_ptx(
    module: ModuleOp,
    function: func.FuncOp,
    code: PreparedCode,
    buffers: Sequence[ProcessBuffer],
    limit: float,
) -> None:
    """Launch a kernel on its grid; writable buffers are updated in place.

    Raises:
        NativeFault: the kernel faults or exceeds the time limit.
        UnsupportedError: an op or an instruction is not supported.
    """
    handle = code.ptx(module, function)
    sizes = sizes_of(function, GRID_SIZE), sizes_of(function, BLOCK_SIZE)
    name = entry_name(function.sym_name.data)
    native_process().launch(handle, name, sizes, buffers, limit=limit)
