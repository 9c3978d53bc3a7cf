"""LLVM's code generator for a target: objects and assembly from LLVM IR text."""

from __future__ import annotations

import os
import sys
from functools import cache, lru_cache

import llvmlite.binding as llvm

from tcopt.support.cpu_target import CpuTarget
from tcopt.support.errors import BackendError, InputError
from tcopt.support.memory import can_map

CODEGEN_LEVEL = 2
"""LLVM's code generation effort; no IR passes run before it."""


def _keep_llvm_whole() -> None:
    """A fork waits until no other thread is inside LLVM, whose locks the child could never take."""
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
    """Make this machine's code generator known to LLVM."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def new_linker() -> llvm.LLJIT:
    """A just-in-time linker for this process.

    JITLink keeps the sections of an object together: they refer to each other within 2 GiB. In a
    process that has much mapped, LLVM's older linker may find places for them further apart, and
    then ends the process.
    """
    initialize_native()
    return llvm.create_lljit_compiler(use_jit_link=sys.platform != "win32", suppress_errors=True)


_IN_ORDER = ("cortex-a34", "cortex-a35", "cortex-a53", "cortex-a55", "cortex-a510", "cortex-a520")
"""Cores that wait at a load whose result is not there yet."""


def _tuning(target: CpuTarget) -> str:
    """What is added to a target's features for the instruction scheduler.

    On AArch64 it takes loads as far ahead of their use as latencies say, so that register tiles
    spill. Cores that execute out of order do that by themselves.
    """
    is_arm = target.triple.startswith("aarch64")
    if not is_arm or target.cpu in _IN_ORDER:
        return ""
    return f"{',' if target.features else ''}+disable-latency-sched-heuristic"


@cache
def _keep_sums_in_order() -> None:
    """Leave sums of integers as they are written.

    LLVM would shorten their chains, by sums of products that wait in registers until accumulators
    have none left.
    """
    llvm.set_option("", "-x86-machine-combiner=0")


@lru_cache(maxsize=16)
def target_machine(target: CpuTarget) -> llvm.TargetMachine:
    """LLVM's description of a target, able to generate code for it.

    Raises InputError if this LLVM has no such target.
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
        raise InputError(f'no LLVM target for triple "{triple}"', hint=str(error)) from error
    return found.create_target_machine(
        cpu=target.cpu,
        features=f"{target.features}{_tuning(target)}",
        opt=CODEGEN_LEVEL,
        reloc="pic",
        codemodel="small",
    )


def data_layout(target: CpuTarget) -> str:
    """The data layout string modules for a target carry."""
    return str(target_machine(target).target_data)


def parse_llvm(text: str) -> llvm.ModuleRef:
    """Parse and verify LLVM IR text.

    Raises BackendError, which means that an emit rule is wrong.
    """
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise BackendError(f"LLVM rejects the generated code: {error}") from error
    return module


_ROOM = 24 << 20
_ROOM_FOR_TEXT = 40
"""Bytes that code generation takes, and bytes for each character of text, generously."""


def check_room(text: int = 0) -> None:
    """Raise MemoryError if LLVM may find too little memory, for which it would end the process.

    Args:
        text: how many characters it has to read.
    """
    size = _ROOM + _ROOM_FOR_TEXT * text
    if not can_map(size):
        raise MemoryError(f"code generation takes about {size >> 20} MiB")


def assemble_object(text: str, target: CpuTarget, *more: str) -> bytes:
    """Object code of LLVM IR text, linked with that of `more` texts.

    Raises MemoryError if there is too little memory.
    """
    check_room(len(text))
    module = parse_llvm(text)
    for each in more:
        module.link_in(parse_llvm(each))
    return target_machine(target).emit_object(module)


def assemble_text(text: str, target: CpuTarget) -> str:
    """Assembly of LLVM IR text."""
    return target_machine(target).emit_assembly(parse_llvm(text))
