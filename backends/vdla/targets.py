"""Output target of the `tcopt` tool: VDLA instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target


@dataclass(frozen=True)
class VdlaTarget(Target):
    """Encoded instructions and micro-ops as text. The option `machine` selects a machine."""

    name = "vdla"

    machine: str = ""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from tcopt.backends.vdla.machines import named_machine
        from tcopt.backends.vdla.source import write_streams

        target = named_machine(self.machine) if self.machine else None
        output.write(write_streams(module, target))


TARGETS: dict[str, Callable[[], type[Target]]] = {"vdla": lambda: VdlaTarget}
"""Factories of this backend's output targets by name."""
