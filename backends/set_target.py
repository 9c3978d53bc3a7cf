"""set-target: set the hardware that the module is compiled for.

A walk by hand: it sets one module attribute.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.backends.named_gpus import named_gpu
from tcopt.dialects.target import TARGET_ATTRIBUTE, TargetFacts
from tcopt.support.errors import InputError
from tcopt.support.registries.target_registry import HOST_KIND, find_target


@dataclass(frozen=True)
class SetTargetPass(ModulePass):
    """Set the module's target, whose facts schedule rules and code generation read.

    Before `module {`, after

        module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu",
          cpu = "haswell", features = "+avx2,+fma", vector_bits = 256, ...>} {

    Options:
        target: a kind of target, or one of its machines: `cpu`, `cpu:haswell`, `cuda:sm_80`.
        cpu: short for `cpu:NAME`; `host`, the default, is this machine.
        gpu: the name of a GPU, for any kind of target.
    """

    name = "set-target"

    target: str = ""
    cpu: str = ""
    gpu: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes[TARGET_ATTRIBUTE] = self._attribute()

    def _attribute(self) -> TargetFacts:
        if len([text for text in (self.target, self.cpu, self.gpu) if text]) > 1:
            raise InputError("a module has one target", hint="give one option to set-target")
        if self.gpu:
            return named_gpu(self.gpu)
        kind, machine = find_target(self.target or HOST_KIND)
        return kind.attribute(machine or self.cpu)
