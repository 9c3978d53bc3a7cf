"""From a kernel-level module to OpenCL C."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tcopt.backends.opencl.names import kernel_name
from tcopt.backends.opencl.writer import Helpers, KernelWriter
from tcopt.passes.kernel.thread_axes import BLOCK_SIZE, KERNEL, sizes_of

_DOUBLE = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"


def write_source(module: ModuleOp) -> str:
    """The source of all kernels of a module: the functions marked `gpu.kernel`.

    Raises:
        UnsupportedError: an op or a type has no form in OpenCL C.
    """
    helpers = Helpers()
    kernels = [write_kernel(function, helpers) for function in kernels_of(module)]
    parts = [*helpers.functions.values(), *kernels]
    text = "\n\n".join(parts) + ("\n" if parts else "")
    return f"{_DOUBLE}\n\n{text}" if "double" in text else text


def kernels_of(module: ModuleOp) -> Iterable[FuncOp]:
    """The kernels of a module, in their order."""
    return (op for op in module.ops if isinstance(op, FuncOp) and KERNEL in op.attributes)


def write_kernel(function: FuncOp, helpers: Helpers) -> str:
    """One kernel; functions that it needs go to `helpers`."""
    writer = KernelWriter(helpers)
    arguments = function.body.block.args
    parameters = [writer.parameter(value, not _is_written(value)) for value in arguments]
    writer.block(function.body.block)
    threads = sizes_of(function, BLOCK_SIZE)
    head = [
        f"__kernel __attribute__((reqd_work_group_size({', '.join(map(str, threads))})))",
        f"void {kernel_name(function.sym_name.data)}({_listed(parameters)})",
    ]
    return "\n".join([*head, "{", *writer.lines, "}"])


def _listed(parameters: Sequence[str]) -> str:
    joined = ", ".join(parameters)
    return joined if len(joined) < 80 else "\n    " + ",\n    ".join(parameters)


def _is_written(value: SSAValue) -> bool:
    stores = (memref.StoreOp, vector.StoreOp)
    return any(isinstance(use.operation, stores) and use.index == 1 for use in value.uses)
