"""From a kernel-level module to PTX."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tcopt.backends.named_gpus import DEFAULT_CUDA, named_gpu
from tcopt.backends.ptx.machine import assemble_ptx, data_layout
from tcopt.backends.ptx.module import emit_kernels
from tcopt.dialects.target import GpuTargetAttr, gpu_target_of


def write_llvm(module: ModuleOp, target: GpuTargetAttr | None = None) -> str:
    """LLVM IR text of all kernels of a module for NVPTX."""
    target = target or gpu_target_of(module) or named_gpu(DEFAULT_CUDA)
    return emit_kernels(module, target, data_layout(target))


def write_ptx(
    module: ModuleOp, target: GpuTargetAttr | None = None, *, planned: bool = False
) -> str:
    """PTX of all kernels of a module: the functions marked `gpu.kernel`.

    Args:
        target: by default the module's own, else `DEFAULT_CUDA`.
        planned: whether kernels are given buffers of a memory plan, see `emit_kernels`.
    Raises:
        UnsupportedError: an op or a type has no form in PTX.
        InputError: the target is no CUDA device.
    """
    target = target or gpu_target_of(module) or named_gpu(DEFAULT_CUDA)
    text = emit_kernels(module, target, data_layout(target), planned=planned)
    return assemble_ptx(text, target)
