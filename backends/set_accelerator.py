"""set-accelerator: set the accelerator that is attached to the module's target.

A walk by hand: it sets one module attribute.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.dialects.target import ACCELERATOR_ATTRIBUTE
from tcopt.support.registries.target_registry import find_target


@dataclass(frozen=True)
class SetAcceleratorPass(ModulePass):
    """Set the module's accelerator, whose facts `partition` reads.

        module {...}
    ->
        module attributes {tcopt.accelerator = #target.vdla<results = "i32", ...>} {...}

    Options:
        target: a kind of target, or one of its machines: `vdla`, `vdla:vta`.
    """

    name = "set-accelerator"

    target: str = "vdla"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kind, machine = find_target(self.target)
        op.attributes[ACCELERATOR_ATTRIBUTE] = kind.attribute(machine)
