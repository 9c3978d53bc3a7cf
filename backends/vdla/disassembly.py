"""Conversion of streams to programs of the dialect, recovering kernels from uses of micro-ops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from xdsl.dialects.builtin import IntegerType, MemRefType
from xdsl.ir import Block, Operation, Region

from tcopt.backends.vdla.stream import (
    MICRO_OPS,
    Alu,
    Compute,
    Finish,
    Gemm,
    Instruction,
    MicroOp,
    Pair,
    Stream,
    Transfer,
)
from tcopt.dialects.accelerator import FinishOp, ProgramOp, StepOp
from tcopt.dialects.vdla import (
    AluOp,
    GemmOp,
    KernelKind,
    KernelOp,
    LoadOp,
    LoadUopsOp,
    StoreOp,
)
from tcopt.support.errors import InputError
from tcopt.support.locations import is_known

_Place = tuple[int, int, int]
"""Destination of a micro-op load, its start in the table, and the number of micro-ops."""


def program_of(stream: Stream) -> ProgramOp:
    """Return the program of a stream. It starts with the kernels, each with its loops.

    Raises:
        InputError: micro-ops are executed that have not been loaded.
    """
    return _Disassembler(stream).run()


class _Disassembler:
    def __init__(self, stream: Stream):
        self.stream = stream
        self.kernels: dict[object, KernelOp] = {}
        self.sram: dict[int, tuple[MicroOp, _Place]] = {}
        self.used: dict[_Place, list[KernelOp]] = defaultdict(list)

    def run(self) -> ProgramOp:
        stream = self.stream
        types = [MemRefType(IntegerType(b.bits), b.shape) for b in stream.buffers]
        block = Block(arg_types=types)
        for argument, buffer in zip(block.args, stream.buffers, strict=True):
            argument.name_hint = buffer.name
        bodies = [self.body(each) for each in stream.instructions]
        loads = {
            place: self.tiles(place) for each in stream.instructions for place in _places(each)
        }
        ops = [
            self.op(each, body, block, loads)
            for each, body in zip(stream.instructions, bodies, strict=True)
        ]
        block.add_ops([*self.kernels.values(), *ops])
        return ProgramOp(stream.name, types, Region(block))

    def body(self, instruction: Instruction) -> KernelOp | None:
        """Return the kernel of an instruction, from the current contents of the micro-op memory."""
        for place in _places(instruction):
            to, start, count = place
            for n, micro_op in enumerate(self.stream.micro_ops[start : start + count]):
                self.sram[to + n] = (micro_op, place)
        if not isinstance(instruction, Compute):
            return None
        entries = range(instruction.uop_begin, instruction.uop_end)
        if not entries or any(n not in self.sram for n in entries):
            raise InputError(
                f"micro-ops {entries.start} to {entries.stop} are executed, but not loaded"
            )
        kernel = self.kernel(instruction, [self.sram[n][0] for n in entries])
        origins = {self.sram[n][1] for n in entries}
        if len(origins) == 1 and kernel not in (users := self.used[origins.pop()]):
            users.append(kernel)
        return kernel

    def kernel(self, instruction: Compute, micro_ops: list[MicroOp]) -> KernelOp:
        factors = [instruction.dst, instruction.src]
        kind = KernelKind.ALU
        if isinstance(instruction, Gemm):
            kind = KernelKind.GEMM
            factors.append(instruction.wgt)
        loops, steps = _without_outer(instruction.loops, factors)
        return self.shared(kind, instruction.uop_begin, loops, steps, micro_ops)

    def shared(
        self,
        kind: KernelKind,
        at: int,
        loops: tuple[int, ...],
        steps: list[tuple[int, ...]],
        micro_ops: Iterable[MicroOp],
    ) -> KernelOp:
        """Return a kernel, shared by all uses of an equal one."""
        fields = len(steps)
        rows = tuple(row[:fields] for row in micro_ops)
        key = (kind, at, loops, tuple(steps), rows)
        if key not in self.kernels:
            self.kernels[key] = kernel = KernelOp(kind, at, loops, steps, rows)
            kernel.result.name_hint = f"k{len(self.kernels) - 1}"
        return self.kernels[key]

    def tiles(self, place: _Place) -> list[KernelOp]:
        """Return adjacent kernels that together are the micro-ops of a load."""
        to, _, count = place
        end, found = to, list[KernelOp]()
        for kernel in sorted(self.used[place], key=lambda each: each.place):
            if kernel.place < end:
                continue
            if kernel.place > end:
                found.append(self.filler(place, end, kernel.place))
            found.append(kernel)
            end = kernel.place + kernel.size
        if end < to + count:
            found.append(self.filler(place, end, to + count))
        return found

    def filler(self, place: _Place, begin: int, end: int) -> KernelOp:
        """Return a kernel for micro-ops that are not executed."""
        to, start, _ = place
        rows = self.stream.micro_ops[start + begin - to : start + end - to]
        return self.shared(KernelKind.GEMM, begin, (), [(), (), ()], rows)

    def op(
        self,
        instruction: Instruction,
        body: KernelOp | None,
        block: Block,
        loads: dict[_Place, list[KernelOp]],
    ) -> Operation:
        op = self.made(instruction, body, block, loads)
        op.set_tokens(instruction.pops, instruction.pushes)
        if instruction.op is not None and is_known(instruction.op.location):
            op.location = instruction.op.location
        return op

    def made(
        self,
        instruction: Instruction,
        body: KernelOp | None,
        block: Block,
        loads: dict[_Place, list[KernelOp]],
    ) -> StepOp:
        if isinstance(instruction, Transfer):
            if instruction.buffer == MICRO_OPS:
                (place,) = _places(instruction)
                return LoadUopsOp([kernel.result for kernel in loads[place]])
            return (StoreOp if instruction.is_store else LoadOp)(
                instruction.memory,
                instruction.sram,
                block.args[instruction.buffer],
                instruction.offset,
                (instruction.rows, instruction.columns),
                instruction.stride,
                instruction.pads,
            )
        if isinstance(instruction, Finish):
            return FinishOp()
        assert body is not None
        if isinstance(instruction, Gemm):
            return GemmOp(body.result, reset=instruction.reset)
        assert isinstance(instruction, Alu)
        return AluOp(instruction.code, body.result, instruction.number)


def _places(instruction: Instruction) -> list[_Place]:
    """Return the destinations to which an instruction loads micro-ops, if it does."""
    if isinstance(instruction, Transfer) and instruction.buffer == MICRO_OPS:
        return [(instruction.sram, instruction.offset, instruction.columns)]
    return []


def _without_outer(
    loops: Pair, factors: list[Pair]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Drop outer loops with one iteration and zero steps."""
    if loops[0] > 1 or any(outer for outer, _ in factors):
        return loops, list(factors)
    inner = [(step,) for _, step in factors]
    if loops[1] > 1 or any(step for (step,) in inner):
        return (loops[1],), list(inner)
    return (), [() for _ in factors]
