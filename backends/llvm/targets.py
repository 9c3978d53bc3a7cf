"""Output targets of the `tcopt` tool: LLVM IR and assembly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from tcopt.support.machines.cpu_target import CpuTarget


def _cpu(name: str) -> CpuTarget | None:
    """Return the named CPU; an empty name means the module's target, or this machine."""
    from tcopt.backends.llvm.machine.host import named_target

    return named_target(name) if name else None


@dataclass(frozen=True)
class LLVMTarget(Target):
    """LLVM IR text. The option `cpu` names a target, see `tcopt.backends.llvm.machine.host`.

    Without a target, in the option or the module, the text has no triple and no data layout and is
    the same on every machine.
    """

    name = "llvm"

    cpu: str = ""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from tcopt.backends.llvm.module import emit_module
        from tcopt.backends.llvm.objects import emit_text
        from tcopt.dialects.target import cpu_target_of

        target = _cpu(self.cpu)
        if target is None and cpu_target_of(module) is None:
            output.write(emit_module(module, export_private=False))
        else:
            output.write(emit_text(module, target))


@dataclass(frozen=True)
class AssemblyTarget(Target):
    """Assembly text for the named CPU; by default for the module's target, or this machine."""

    name = "asm"

    cpu: str = ""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from tcopt.backends.llvm.objects import emit_assembly

        output.write(emit_assembly(module, _cpu(self.cpu)))


TARGETS: dict[str, Callable[[], type[Target]]] = {
    "llvm": lambda: LLVMTarget,
    "asm": lambda: AssemblyTarget,
}
"""Factories of this backend's output targets by name."""
