"""Output target of the `tcopt` tool: OpenCL C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target


@dataclass(frozen=True)
class OpenCLTarget(Target):
    """OpenCL C of a module's kernels."""

    name = "opencl"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from tcopt.backends.opencl.source import write_source

        output.write(write_source(module))


TARGETS: dict[str, Callable[[], type[Target]]] = {"opencl": lambda: OpenCLTarget}
"""Factories of this backend's output targets by name."""
