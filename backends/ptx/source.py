"""Translation of a kernel-level module to PTX."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tcopt.backends.named_gpus import named_gpu
from tcopt.backends.ptx.machine import assemble_ptx, data_layout
from tcopt.backends.ptx.module import emit_kernels
from tcopt.backends.ptx.names import DEFAULT_ARCH
from tcopt.dialects.target import GpuTargetAttr, gpu_target_of


def write_llvm(module: ModuleOp, target: GpuTargetAttr | None = None) -> str:
    """Return the LLVM IR text of all kernels of a module for NVPTX."""
    target = target or gpu_target_of(module) or named_gpu(DEFAULT_ARCH)
    return emit_kernels(module, target, data_layout(target))


def write_ptx(
    module: ModuleOp, target: GpuTargetAttr | None = None, *, planned: bool = False
) -> str:
    """Return the PTX of all kernels of a module, which are the functions marked `gpu.kernel`.

    Args:
        target: by default the module's target, or `DEFAULT_ARCH`.
        planned: whether buffer arguments are part of a memory plan, see `emit_kernels`.
    Raises:
        UnsupportedError: an op or type has no PTX form.
        InputError: the target is not a CUDA device.
    """
    target = target or gpu_target_of(module) or named_gpu(DEFAULT_ARCH)
    text = emit_kernels(module, target, data_layout(target), planned=planned)
    return assemble_ptx(text, target)
