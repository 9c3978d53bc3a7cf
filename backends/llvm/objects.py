"""Object files, assembly and shared libraries, for this machine or for cross compilation.

A C program calls `int32_t tcopt_main(void **args)` of the result. With parallel loops, the result
contains the thread pool and `void tcopt_set_threads(int32_t)`; systems with a separate thread
library need `-lpthread` for linking.
"""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from tcopt.backends.llvm.jit import external_names
from tcopt.backends.llvm.machine.linker import link_library
from tcopt.backends.llvm.machine.machine import assemble_object, assemble_text, data_layout
from tcopt.backends.llvm.module import emit_module, target_of
from tcopt.backends.llvm.pool.text import PARALLEL_SYMBOL, STOP_VARIABLE, pool_text, setting_text
from tcopt.support.machines.cpu_target import CpuTarget


def emit_text(module: ModuleOp, target: CpuTarget | None = None) -> str:
    """Return the LLVM IR text of a module for a target, with private functions hidden."""
    target = target or target_of(module)
    return emit_module(
        module,
        triple=target.triple,
        data_layout=data_layout(target),
        capabilities=target.capabilities,
        export_private=False,
    )


def emit_object(module: ModuleOp, target: CpuTarget | None = None) -> bytes:
    """Return the object code of a kernel-level module, with the thread pool if needed.

    Args:
        target: by default the module's `tcopt.target`, else this machine.
    Raises:
        UnsupportedError: an op or type has no LLVM form.
        InputError: this LLVM does not support the target.
    """
    target = target or target_of(module)
    text = emit_text(module, target)
    parallel = PARALLEL_SYMBOL in external_names(text)
    more = [pool_text(target)] if parallel else []
    if parallel or STOP_VARIABLE in text:
        more.append(setting_text())
    return assemble_object(text, target, *more)


def emit_assembly(module: ModuleOp, target: CpuTarget | None = None) -> str:
    """Return the assembly of a kernel-level module; see `emit_object` for arguments and errors."""
    target = target or target_of(module)
    return assemble_text(emit_text(module, target), target)


def emit_library(module: ModuleOp, path: str | Path, target: CpuTarget | None = None) -> None:
    """Write a shared library with the public functions of a module.

    Raises:
        BackendError: there is no C compiler to link with, or linking fails.
    """
    target = target or target_of(module)
    link_library([emit_object(module, target)], path, target)
