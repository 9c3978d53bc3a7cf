"""Output targets of the `tcopt` tool: PTX, and the LLVM IR that it is generated from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from tcopt.dialects.target import GpuTargetAttr


def _gpu(name: str) -> GpuTargetAttr | None:
    """Return the named device; an empty name means the module's target."""
    from tcopt.backends.named_gpus import named_gpu

    return named_gpu(name) if name else None


@dataclass(frozen=True)
class PtxTarget(Target):
    """PTX of a module's kernels. The option `arch` names a device, such as `sm_80`."""

    name = "ptx"

    arch: str = ""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from tcopt.backends.ptx.source import write_ptx

        output.write(write_ptx(module, _gpu(self.arch)))


@dataclass(frozen=True)
class NvvmTarget(Target):
    """LLVM IR of a module's kernels, from which PTX is generated; options as for `ptx`."""

    name = "nvptx-llvm"

    arch: str = ""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from tcopt.backends.ptx.source import write_llvm

        output.write(write_llvm(module, _gpu(self.arch)))


TARGETS: dict[str, Callable[[], type[Target]]] = {
    "ptx": lambda: PtxTarget,
    "nvptx-llvm": lambda: NvvmTarget,
}
"""Factories of this backend's output targets by name."""
