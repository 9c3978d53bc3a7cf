"""Object code of plain translations."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import initialize_native, parse_llvm


def plain_object(text: str, effort: int) -> bytes:
    """Return object code of plain LLVM IR text, optimised if the effort is above 0."""
    module, machine = parse_llvm(text), _machine(effort)
    if effort:
        # Passes that increase code size take longer than they save in a single run.
        options = llvm.create_pipeline_tuning_options(speed_level=effort)
        options.loop_unrolling = options.loop_vectorization = False
        options.slp_vectorization = options.loop_interleaving = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


@cache
def _machine(effort: int) -> llvm.TargetMachine:
    target = host_target()
    initialize_native()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=effort, reloc="pic", codemodel="small"
    )
