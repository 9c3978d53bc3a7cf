"""Textual form of instructions, for listings, messages and traces."""

from __future__ import annotations

from tcopt.backends.vdla.stream import (
    MICRO_OPS,
    Alu,
    Buffer,
    Compute,
    Gemm,
    Instruction,
    Transfer,
)


def describe(instruction: Instruction, buffers: tuple[Buffer, ...]) -> str:
    """Return an instruction as one line, `load inp 0, x[0] : 8x29 stride 56 push(compute)`."""
    tokens = [
        f"{verb}({', '.join(units)})"
        for verb, units in (("pop", instruction.pops), ("push", instruction.pushes))
        if units
    ]
    return " ".join([_work(instruction, buffers), *tokens])


def _work(instruction: Instruction, buffers: tuple[Buffer, ...]) -> str:
    if isinstance(instruction, Transfer):
        return _transfer(instruction, buffers)
    if isinstance(instruction, Gemm):
        name = "gemm reset" if instruction.reset else "gemm"
        return f"{name} {_loops(instruction)} wgt {list(instruction.wgt)}"
    if isinstance(instruction, Alu):
        number = "" if instruction.number is None else f" {instruction.number}"
        return f"alu {instruction.code}{number} {_loops(instruction)}"
    return "finish"


def _transfer(instruction: Transfer, buffers: tuple[Buffer, ...]) -> str:
    verb = "store" if instruction.is_store else "load"
    uops = instruction.buffer == MICRO_OPS
    name = "micro_ops" if uops else buffers[instruction.buffer].name
    text = f"{verb} {instruction.memory} {instruction.sram}, {name}[{instruction.offset}]"
    text += f" : {instruction.rows}x{instruction.columns}"
    if instruction.stride != instruction.columns:
        text += f" stride {instruction.stride}"
    return text + (f" pad {list(instruction.pads)}" if any(instruction.pads) else "")


def _loops(instruction: Compute) -> str:
    return (
        f"{instruction.uop_begin} to {instruction.uop_end} {list(instruction.loops)} "
        f"dst {list(instruction.dst)} src {list(instruction.src)}"
    )
