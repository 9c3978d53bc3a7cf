"""Translation of an instruction stream to tasks of units, with their accesses and durations."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.accelerator.machine import machine_for, queue_name
from tcopt.dialects.accelerator.tasks import Access, Entries, Machine, Task
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import Memory
from tcopt.dialects.vdla.stream import (
    MICRO_OPS,
    Alu,
    Compute,
    Finish,
    Gemm,
    Instruction,
    Stream,
    Transfer,
)
from tcopt.dialects.vdla.tasks.faults import fault
from tcopt.dialects.vdla.tasks.indices import step_indices
from tcopt.dialects.vdla.text import describe
from tcopt.support.errors import TcoptError
from tcopt.support.locations import describe_location, nearest_location


def machine_of(target: VdlaTargetAttr, stream: Stream) -> Machine:
    """Return the machine that executes a stream; its buffers are memories in `granule` units."""
    spaces: dict[str, int] = {
        memory: target.entries[memory] for memory in (Memory.WGT, Memory.INP, Memory.ACC)
    }
    size = granule(target)
    for number, buffer in enumerate(stream.buffers):
        spaces[space_of(stream, number)] = -(-buffer.bytes // size)
    local = frozenset(str(memory) for memory in Memory)
    return machine_for(target, spaces, local)


def granule(target: VdlaTargetAttr) -> int:
    """Return the largest number of bytes that divides every entry size in memory."""
    return gcd(*(target.entry_bytes[m] for m in Memory if m is not Memory.UOP))


def tasks_of(stream: Stream, target: VdlaTargetAttr) -> tuple[list[Task], list[TcoptError]]:
    """Return the tasks of a stream, and errors in its use of micro-ops.

    An instruction whose micro-ops are missing has no accesses and is reported as an error, and so
    is one that rewrites a register too soon.
    """
    reader = _Reader(stream, target)
    return [reader.task(*each) for each in enumerate(stream.instructions)], reader.faults


class _Reader:
    """Traversal of a stream in order, the order in which the compute unit loads micro-ops."""

    def __init__(self, stream: Stream, target: VdlaTargetAttr):
        self.stream = stream
        self.target = target
        self.faults: list[TcoptError] = []
        count = target.entries[Memory.UOP]
        self.uops = np.zeros((count, 3), np.int64)
        self.loaded = np.zeros(count, np.bool_)
        self.table = np.array(stream.micro_ops, np.int64).reshape(-1, 3)
        self.granule = granule(target)
        self.channels = target.memory_port.channels
        self.spaces = machine_of(target, stream).spaces
        self.known: dict[Any, tuple[tuple[Access, ...], tuple[Access, ...]]] = {}

    def task(self, number: int, instruction: Instruction) -> Task:
        reads: tuple[Access, ...] = ()
        writes: tuple[Access, ...] = ()
        cycles = port_cycles = size = 0
        if isinstance(instruction, Transfer):
            reads, writes = self.transfer(instruction)
            size = instruction.columns * self.target.entry_bytes[instruction.memory]
            port_cycles = self.target.transfer_cycles(instruction.rows, size)
            size *= instruction.rows
        elif isinstance(instruction, Compute):
            reads, writes = self.compute(number, instruction)
            cycles = self.compute_cycles(instruction)
        reads, writes = (
            self.inside(number, instruction, reads),
            self.inside(number, instruction, writes),
        )
        unit = instruction.unit
        return Task(
            number,
            unit,
            tuple(queue_name(other, unit) for other in instruction.pops),
            tuple(queue_name(unit, other) for other in instruction.pushes),
            reads,
            writes,
            cycles,
            port_cycles,
            self.channels[-1 if isinstance(instruction, Transfer) and instruction.is_store else 0],
            size,
            is_end=isinstance(instruction, Finish),
            text=describe(instruction, self.stream.buffers),
            source=instruction,
            place=place_of(instruction),
        )

    def inside(
        self, number: int, instruction: Instruction, accesses: tuple[Access, ...]
    ) -> tuple[Access, ...]:
        """Return the accesses, or none (and record an error) if one is out of bounds."""
        for access in accesses:
            entries, there = access.entries, self.spaces[access.space]
            last = entries.stop - 1 if isinstance(entries, slice) else int(entries.max())
            if last >= there:
                text = f"entry {last} of {access.space}, which has {there}"
                self.faults.append(fault(text, instruction, number))
                return ()
        return accesses

    def compute_cycles(self, instruction: Compute) -> int:
        target, each = self.target, self.target.gemm_cycles.data
        if isinstance(instruction, Alu):
            is_number = instruction.number is not None
            each = (target.alu_imm if is_number else target.alu_reg).data
        return target.fill.data + instruction.count * each

    def transfer(self, instruction: Transfer) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
        if instruction.buffer == MICRO_OPS:
            place = slice(instruction.sram, instruction.sram + instruction.columns)
            rows = self.table[instruction.offset : instruction.offset + instruction.columns]
            # Out-of-bounds transfers are reported by the verifier and by the simulator.
            fits = self.uops[place].shape == rows.shape
            if fits:
                self.uops[place] = rows
            self.loaded[place] = fits
            return (), ()
        first = instruction.sram
        sram = Access(instruction.memory.place, slice(first, first + instruction.sram_count))
        memory = Access(space_of(self.stream, instruction.buffer), self.places(instruction))
        return ((sram,), (memory,)) if instruction.is_store else ((memory,), (sram,))

    def places(self, instruction: Transfer) -> Entries:
        """Return the granules of a buffer that a tile covers."""
        each = self.target.entry_bytes[instruction.memory] // self.granule
        width = instruction.columns * each
        if instruction.rows == 1 or instruction.stride == instruction.columns:
            start = instruction.offset * each
            return slice(start, start + instruction.rows * width)
        rows = instruction.offset + np.arange(instruction.rows) * instruction.stride
        return (rows[:, None] * each + np.arange(width)).reshape(-1)

    def compute(
        self, number: int, instruction: Compute
    ) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
        begin, end = instruction.uop_begin, instruction.uop_end
        if not self.loaded[begin:end].all() or not begin < end <= len(self.loaded):
            text = f"micro-ops {begin} to {end - 1} are executed, but not loaded"
            self.faults.append(fault(text, instruction, number))
            return (), ()
        words = self.uops[begin:end]
        steps = (instruction.loops, instruction.dst, instruction.src)
        kind = (
            (instruction.wgt, instruction.reset)
            if isinstance(instruction, Gemm)
            else isinstance(instruction, Alu) and instruction.number is None
        )
        key = (words.tobytes(), steps, kind)
        if key not in self.known:
            self.known[key] = self.accesses(number, instruction, words)
        return self.known[key]

    def accesses(
        self, number: int, instruction: Compute, words: NDArray[np.int64]
    ) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
        dst, src, wgt = step_indices(instruction, words)
        registers = Access(Memory.ACC, _compact(dst))
        if isinstance(instruction, Gemm):
            if instruction.reset:
                return (), (registers,)
            self.check_rewrites(number, instruction, dst)
            inputs = Access(Memory.INP, _compact(src)), Access(Memory.WGT, _compact(wgt))
            return (*inputs, registers), (registers,)
        if isinstance(instruction, Alu) and instruction.number is None:
            return (registers, Access(Memory.ACC, _compact(src))), (registers,)
        return (registers,), (registers,)

    def check_rewrites(self, number: int, instruction: Compute, dst: NDArray[np.int64]) -> None:
        for distance in range(1, self.target.rewrite.data):
            again = np.flatnonzero(dst[distance:] == dst[:-distance])
            if len(again):
                text = (
                    f"register {dst[again[0]]} is written again after {distance} micro-ops, the "
                    f"machine takes {self.target.rewrite.data}"
                )
                self.faults.append(fault(text, instruction, number))
                return


def place_of(instruction: Instruction) -> str:
    """Return the source location of an instruction; empty if unknown."""
    if instruction.op is None:
        return instruction.place
    return describe_location(nearest_location(instruction.op)) or ""


def space_of(stream: Stream, buffer: int) -> str:
    """Return the name of a buffer as a memory of the machine model."""
    return f"buffer {buffer} ({stream.buffers[buffer].name})"


def _compact(entries: NDArray[np.int64]) -> Entries:
    """Return a slice if the entries are contiguous."""
    unique = np.unique(entries)
    first, last = int(unique[0]), int(unique[-1])
    return slice(first, last + 1) if last - first + 1 == len(unique) else unique
