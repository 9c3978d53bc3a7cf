"""set-target: say what hardware the module is compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.backends.llvm.host import named_target
from tcopt.backends.named_gpus import named_gpu
from tcopt.dialects.target import TARGET_ATTRIBUTE, CpuTargetAttr


@dataclass(frozen=True)
class SetTargetPass(ModulePass):
    """Give the module its target: the facts that schedule rules and code generation read.

    Before `module {`, after

        module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu",
          cpu = "haswell", features = "+avx2,+fma", vector_bits = 256, ...>} {

    Options:
        cpu: `host` for this machine, or a named CPU.
        gpu: a named GPU instead.
    """

    name = "set-target"

    cpu: str = "host"
    gpu: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = named_gpu(self.gpu) if self.gpu else CpuTargetAttr.of(named_target(self.cpu))
        op.attributes[TARGET_ATTRIBUTE] = target
