"""Translation of a kernel-level module to OpenCL C."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tcopt.backends.identifiers import comment
from tcopt.backends.kernels import is_read_only, kernels_of
from tcopt.backends.opencl.emit.names import kernel_name
from tcopt.backends.opencl.emit.writer import Helpers, OpenClWriter
from tcopt.dialects.target import gpu_target_of
from tcopt.passes.kernel.lowering.thread_axes import BLOCK_SIZE, sizes_of
from tcopt.support.ir.origins import node_names

_EXTENSIONS = {
    "double": "cl_khr_fp64",
    "half": "cl_khr_fp16",
    "sub_group_shuffle_xor": "cl_khr_subgroup_shuffle",
}
"""Extensions required by a type or a function."""

_CONTRACT = "#pragma OPENCL FP_CONTRACT OFF"
"""Multiply-adds round once only where they are explicit."""


def write_source(module: ModuleOp) -> str:
    """Return the source of all kernels of a module, which are the functions marked `gpu.kernel`.

    Raises:
        UnsupportedError: an op or type has no OpenCL C form.
    """
    target = gpu_target_of(module)
    halves = target is not None and target.has("fp16")
    helpers = Helpers()
    kernels = [write_kernel(function, helpers, halves) for function in kernels_of(module)]
    body = "\n\n".join([*helpers.functions.values(), *kernels])
    if not body:
        return ""
    words = _words(body)
    used = [name for type, name in _EXTENSIONS.items() if type in words]
    if not halves and "cl_khr_fp16" in used:
        used.remove("cl_khr_fp16")
    head = [*(f"#pragma OPENCL EXTENSION {name} : enable" for name in used), _CONTRACT]
    return "\n".join(head) + "\n\n" + body + "\n"


def _words(code: str) -> set[str]:
    """Return the words of code, without comments; vector types also count as element types."""
    words = re.findall(r"[A-Za-z_]\w*", re.sub(r"//.*", "", code))
    return {*words, *(word.rstrip("0123456789") for word in words)}


def write_kernel(function: FuncOp, helpers: Helpers, halves: bool = False) -> str:
    """Return one kernel; required functions are added to `helpers`.

    Args:
        halves: whether the device supports arithmetic on `half`.
    """
    writer = OpenClWriter(helpers, halves)
    arguments = function.body.block.args
    parameters = [writer.parameter(value, is_read_only(value)) for value in arguments]
    writer.block(function.body.block)
    threads = sizes_of(function, BLOCK_SIZE)
    nodes = ", ".join(map(comment, node_names(function.location)))
    head = [
        *([f"// {nodes}"] if nodes else []),
        f"__kernel __attribute__((reqd_work_group_size({', '.join(map(str, threads))})))",
        f"void {kernel_name(function.sym_name.data)}({_listed(parameters)})",
    ]
    return "\n".join([*head, "{", *writer.lines, "}"])


def _listed(parameters: Sequence[str]) -> str:
    joined = ", ".join(parameters)
    return joined if len(joined) < 80 else "\n    " + ",\n    ".join(parameters)
