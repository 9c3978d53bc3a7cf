"""LLVM's code generator: object code and assembly from LLVM IR text."""

from __future__ import annotations

import os
import sys
from functools import cache, lru_cache

import llvmlite.binding as llvm

from tcopt.support.errors import BackendError, InputError
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.processes.memory import can_map

CODEGEN_LEVEL = 2
"""LLVM's code generation level; no IR passes are run before it."""


def _keep_llvm_whole() -> None:
    """Make a fork wait until no other thread is inside LLVM and holds its locks."""
    lock = getattr(getattr(llvm.ffi, "lib", None), "_lock", None)
    if lock is None or not hasattr(os, "register_at_fork"):
        return

    def leave() -> None:
        lock.__exit__(None, None, None)

    os.register_at_fork(before=lock.__enter__, after_in_parent=leave, after_in_child=leave)


_keep_llvm_whole()


@cache
def _initialize_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def initialize_native() -> None:
    """Register this machine's code generator with LLVM."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def new_linker() -> llvm.LLJIT:
    """Return a JIT linker for this process.

    JITLink keeps the sections of an object together, because they refer to each other within 2
    GiB. In a process with many mappings, LLVM's older linker may place them further apart, and
    then aborts the process.
    """
    initialize_native()
    return llvm.create_lljit_compiler(use_jit_link=sys.platform != "win32", suppress_errors=True)


_IN_ORDER = ("cortex-a34", "cortex-a35", "cortex-a53", "cortex-a55", "cortex-a510", "cortex-a520")
"""In-order cores, which stall at a load until its result is available."""


def _tuning(target: CpuTarget) -> str:
    """Return additional features that control the instruction scheduler.

    On AArch64, it hoists loads as far ahead of their use as latencies suggest, so that register
    tiles spill. Out-of-order cores hide these latencies themselves.
    """
    is_arm = target.triple.startswith("aarch64")
    if not is_arm or target.cpu in _IN_ORDER:
        return ""
    return f"{',' if target.features else ''}+disable-latency-sched-heuristic"


@cache
def _keep_sums_in_order() -> None:
    """Keep integer sums in the order in which they are emitted.

    LLVM would shorten their dependence chains by adding products first, which increases register
    pressure until accumulators spill.
    """
    llvm.set_option("", "-x86-machine-combiner=0")


@lru_cache(maxsize=16)
def target_machine(target: CpuTarget) -> llvm.TargetMachine:
    """Return LLVM's target machine for a target.

    Raises InputError if this LLVM does not support the target.
    """
    _keep_sums_in_order()
    triple = target.triple
    if triple.split("-")[0] == llvm.get_process_triple().split("-")[0]:
        initialize_native()
    else:
        _initialize_all()
    try:
        found = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise InputError(f'LLVM does not support the triple "{triple}"', hint=str(error)) from error
    return found.create_target_machine(
        cpu=target.cpu,
        features=f"{target.features}{_tuning(target)}",
        opt=CODEGEN_LEVEL,
        reloc="pic",
        codemodel="small",
    )


def data_layout(target: CpuTarget) -> str:
    """Return the data layout string of modules for a target."""
    return str(target_machine(target).target_data)


def parse_llvm(text: str) -> llvm.ModuleRef:
    """Parse and verify LLVM IR text.

    Raises BackendError, which indicates a wrong emit rule.
    """
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise BackendError(f"LLVM rejects the generated code: {error}") from error
    return module


_ROOM = 24 << 20
_ROOM_FOR_TEXT = 40
"""Upper bounds of code generator memory in bytes, in total and per character of text."""


def check_room(text: int = 0) -> None:
    """Raise MemoryError if memory may be too small for LLVM, which would abort the process.

    Args:
        text: the number of characters that it has to parse.
    """
    size = _ROOM + _ROOM_FOR_TEXT * text
    if not can_map(size):
        raise MemoryError(f"code generation takes about {size >> 20} MiB")


def assemble_object(text: str, target: CpuTarget, *more: str) -> bytes:
    """Return the object code of LLVM IR text, linked with that of `more` texts.

    Raises MemoryError if memory is too small.
    """
    check_room(len(text))
    module = parse_llvm(text)
    for each in more:
        module.link_in(parse_llvm(each))
    return target_machine(target).emit_object(module)


def assemble_text(text: str, target: CpuTarget) -> str:
    """Return the assembly of LLVM IR text."""
    return target_machine(target).emit_assembly(parse_llvm(text))
