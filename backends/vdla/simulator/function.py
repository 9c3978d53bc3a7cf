"""Functional simulation of a stream: instructions executed one at a time on NumPy arrays.

Integer arithmetic is exact, and 32-bit sums wrap around. Entries that have not been written are
poisoned: reading one is an error, and so is any out-of-bounds access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.vdla.stream import MICRO_OPS, Alu, Compute, Gemm, Instruction, Stream, Transfer
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import AluCode, Memory
from tcopt.dialects.vdla.attrs import MOST_SHIFT
from tcopt.dialects.vdla.indices import Indices, step_indices
from tcopt.support.errors import InputError, VerificationError
from tcopt.support.locations import describe_location, nearest_location
from tcopt.support.processes.stop_checks import check_stop

Array = NDArray[Any]
Plans = dict[tuple[Any, ...], Any]
"""Cached products of gemm and steps of alu instructions, keyed by all that they depend on."""

_EXACT = 1 << 24
"""float32 represents all integers up to this value."""

_PRODUCT = 1 << 14
"""Maximum magnitude of a product of two bytes."""

_POISON = 0x5A

_SMALL_PRODUCT = 1 << 18
"""Multiplications of a matrix product that is too small for a second thread."""


def run_stream(
    stream: Stream,
    target: VdlaTargetAttr,
    buffers: Sequence[Array],
    *,
    order: Iterable[int] | None = None,
    plans: Plans | None = None,
) -> None:
    """Execute a stream on buffers, which it updates in place.

    Args:
        buffers: C-contiguous arrays with the shapes and types of the stream's buffers.
        order: the order of the instructions, by index; None for the order of the stream.
        plans: cache of analyses of the stream's instructions, reused between runs.
    Raises:
        InputError: an array does not match its buffer.
        VerificationError: an instruction accesses an entry that does not exist, or reads one that
            has not been written.
    """
    machine = Machine(stream, target, buffers, plans)
    machine.run(range(len(stream.instructions)) if order is None else order)


class Machine:
    """The memories of a machine, and the buffers of a program.

    Attributes:
        sram: the entries of each memory, one per row. written: whether each entry has been
            written.
    """

    def __init__(
        self,
        stream: Stream,
        target: VdlaTargetAttr,
        buffers: Sequence[Array],
        plans: Plans | None = None,
    ):
        self.stream = stream
        self.target = target
        self.buffers = _flat_buffers(stream, buffers)
        rows, inner, lanes = target.rows.data, target.block_in.data, target.block_out.data
        shapes: dict[Memory, tuple[tuple[int, ...], type[Any]]] = {
            Memory.UOP: ((3,), np.int64),
            Memory.WGT: ((lanes, inner), np.int8),
            Memory.INP: ((rows, inner), np.int8),
            Memory.ACC: ((rows, lanes), np.int32),
        }
        self.sram: dict[Memory, Array] = {}
        self.written: dict[Memory, NDArray[np.bool_]] = {}
        for memory, (shape, dtype) in shapes.items():
            count = target.entries[memory]
            self.sram[memory] = np.full((count, *shape), _POISON, dtype)
            self.written[memory] = np.zeros(count, np.bool_)
        self.micro_ops = np.array(stream.micro_ops, np.int64).reshape(-1, 3)
        self._plans: Plans = {} if plans is None else plans

    def run(self, order: Iterable[int]) -> None:
        """Execute instructions by their positions."""
        for number in order:
            check_stop()
            instruction = self.stream.instructions[number]
            if isinstance(instruction, Transfer):
                self._transfer(instruction, number)
            elif isinstance(instruction, Gemm):
                self._gemm(instruction, number)
            elif isinstance(instruction, Alu):
                self._alu(instruction, number)

    # Transfers.

    def _transfer(self, instruction: Transfer, number: int) -> None:
        source = self._memory_rows(instruction)
        starts = instruction.offset + np.arange(instruction.rows) * instruction.stride
        entries = (starts[:, None] + np.arange(instruction.columns)).reshape(-1)
        if instruction.rows < 1 or instruction.columns < 1:
            raise fault("a tile without entries", instruction, number)
        if entries[-1] >= len(source) or entries.min() < 0 or starts[-1] < 0:
            raise fault(
                f"entries {entries[0]} to {entries[-1]} of memory that has {len(source)}",
                instruction,
                number,
            )
        place = instruction.memory.place
        first, count = instruction.sram, instruction.sram_count
        self._check_range(place, first, first + count - 1, instruction, number)
        if instruction.is_store:
            self._check_written(place, slice(first, first + count), first, instruction, number)
            values = self.sram[place][first : first + count].reshape(count, -1)
            source[entries] = values.astype(source.dtype)
            return
        top, _, left, _ = instruction.pads
        tile = np.zeros(
            (instruction.sram_rows, instruction.sram_columns, source.shape[1]), source.dtype
        )
        shape = (instruction.rows, instruction.columns, -1)
        tile[top : top + instruction.rows, left : left + instruction.columns] = source[
            entries
        ].reshape(shape)
        memory = self.sram[place]
        memory[first : first + count] = tile.reshape(count, *memory.shape[1:])
        self.written[place][first : first + count] = True

    def _memory_rows(self, instruction: Transfer) -> Array:
        """Return the contents of memory, one entry per row."""
        if instruction.buffer == MICRO_OPS:
            return self.micro_ops
        flat = self.buffers[instruction.buffer]
        width = self.target.entry_bytes[instruction.memory] // flat.itemsize
        return flat[: len(flat) // width * width].reshape(-1, width)

    # Micro-ops.

    def _steps(self, instruction: Compute) -> list[Indices]:
        begin, end = instruction.uop_begin, instruction.uop_end
        rows = self.sram[Memory.UOP][begin:end]
        return step_indices(instruction.loops, instruction.factors, rows)

    def _key(self, instruction: Compute, number: int) -> tuple[Any, ...]:
        """Return the key of everything that the steps of an instruction depend on."""
        begin, end = instruction.uop_begin, instruction.uop_end
        if begin >= end or min(instruction.loops) < 1:
            raise fault("no micro-ops to execute", instruction, number)
        self._check_range(Memory.UOP, begin, end - 1, instruction, number)
        self._check_written(Memory.UOP, slice(begin, end), begin, instruction, number)
        words = self.sram[Memory.UOP][begin:end].tobytes()
        wgt = (instruction.wgt, instruction.reset) if isinstance(instruction, Gemm) else ()
        return (words, instruction.loops, instruction.dst, instruction.src, *wgt)

    def _gemm(self, instruction: Gemm, number: int) -> None:
        key = self._key(instruction, number)
        plan: _GemmPlan | None = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._gemm_plan(instruction, number)
        acc, written = self.sram[Memory.ACC], self.written[Memory.ACC]
        if instruction.reset:
            acc[plan.dst] = 0
            written[plan.dst] = True
            return
        self._check_written(Memory.ACC, plan.dst, plan.dst, instruction, number)
        self._check_written(Memory.INP, plan.src, plan.src, instruction, number)
        self._check_written(Memory.WGT, plan.wgt, plan.wgt, instruction, number)
        for part in plan.parts:
            self._add_products(acc, part)

    def _add_products(self, acc: Array, part: _Products) -> None:
        """Accumulate products of rows of inputs with the same weights in registers."""
        count, depth = part.src.shape
        rows, lanes = acc.shape[1:]
        inner = self.sram[Memory.INP].shape[2]
        most = max(1, _EXACT // (_PRODUCT * inner))
        for start in range(0, depth, most):
            src, wgt = part.src[:, start : start + most], part.wgt[start : start + most]
            data = self.sram[Memory.INP][src].transpose(0, 2, 1, 3).astype(np.float32)
            weights = self.sram[Memory.WGT][wgt].transpose(0, 2, 1).astype(np.float32)
            width = src.shape[1] * inner
            sums = _product(data.reshape(count * rows, width), weights.reshape(width, lanes))
            acc[part.dst] += sums.astype(np.int32).reshape(count, rows, lanes)

    def _gemm_plan(self, instruction: Gemm, number: int) -> _GemmPlan:
        dst, src, wgt = self._steps(instruction)
        self._check_range(Memory.ACC, 0, int(dst.max()), instruction, number)
        if instruction.reset:
            return _GemmPlan(np.unique(dst), src[:0], wgt[:0], ())
        self._check_range(Memory.INP, 0, int(src.max()), instruction, number)
        self._check_range(Memory.WGT, 0, int(wgt.max()), instruction, number)
        for distance in range(1, self.target.rewrite.data):
            again = np.flatnonzero(dst[distance:] == dst[:-distance])
            if len(again):
                raise fault(
                    f"register {dst[again[0]]} is written again after {distance} micro-ops, the "
                    f"minimum is {self.target.rewrite.data}",
                    instruction,
                    number,
                )
        parts = tuple(_products(dst, src, wgt))
        return _GemmPlan(np.unique(dst), np.unique(src), np.unique(wgt), parts)

    def _alu(self, instruction: Alu, number: int) -> None:
        by_number = instruction.number is not None
        key = (*self._key(instruction, number), by_number)
        parts: list[tuple[Indices, Indices]] | None = self._plans.get(key)
        if parts is None:
            dst, src, _ = self._steps(instruction)
            parts = self._plans[key] = _independent(dst, dst if by_number else src)
        acc = self.sram[Memory.ACC]
        for dst, src in parts:
            self._check_range(Memory.ACC, 0, int(max(dst.max(), src.max())), instruction, number)
            for entries in (dst, src):
                self._check_written(Memory.ACC, entries, entries, instruction, number)
            left = acc[dst].astype(np.int64)
            operand = instruction.number
            right = acc[src].astype(np.int64) if operand is None else np.array([operand])
            if instruction.code is AluCode.SHR and np.abs(right).max() > MOST_SHIFT:
                raise fault(f"a shift of more than {MOST_SHIFT} bits", instruction, number)
            acc[dst] = _ALU[instruction.code](left, right).astype(np.int32)

    # Errors.

    def _check_range(
        self, memory: Memory, first: int, last: int, instruction: Instruction, number: int
    ) -> None:
        there = len(self.written[memory])
        if first < 0 or last >= there:
            raise fault(
                f"entries {first} to {last} of {memory}, which has {there}", instruction, number
            )

    def _check_written(
        self,
        memory: Memory,
        entries: slice | Indices,
        names: int | Indices,
        instruction: Instruction,
        number: int,
    ) -> None:
        written = self.written[memory][entries]
        if written.all():
            return
        missing = int(np.flatnonzero(~written)[0])
        name = names + missing if isinstance(names, int) else names[missing]
        raise fault(f"entry {name} of {memory} is read, but nothing has written it",
                    instruction, number)  # fmt: skip


def fault(message: str, instruction: Instruction, number: int) -> VerificationError:
    """Return the error of an instruction, with the op that it comes from and its location."""
    op = instruction.op
    where = f"step {number}"
    if op is not None and (place := describe_location(nearest_location(op))):
        where += f", {place}"
    return VerificationError(message, op=op, where=where)


def _flat_buffers(stream: Stream, buffers: Sequence[Array]) -> list[Array]:
    if len(buffers) != len(stream.buffers):
        raise InputError(
            f"program @{stream.name} takes {len(stream.buffers)} buffers, not {len(buffers)}"
        )
    for buffer, array in zip(stream.buffers, buffers, strict=True):
        dtype = np.dtype(np.int32 if buffer.bits == 32 else np.int8)
        if array.shape != buffer.shape or array.dtype != dtype:
            raise InputError(
                f"expected {dtype}{list(buffer.shape)}, got {array.dtype}{list(array.shape)}",
                where=buffer.name,
            )
        if not array.flags.c_contiguous:
            raise InputError("the array is not contiguous", where=buffer.name)
    return [array.reshape(-1) for array in buffers]


@dataclass(frozen=True)
class _Products:
    """Registers that accumulate the products of inputs, one row each, with the same weights."""

    dst: Indices
    src: Indices
    wgt: Indices


@dataclass(frozen=True)
class _GemmPlan:
    """The entries that a gemm accesses, and its products."""

    dst: Indices
    src: Indices
    wgt: Indices
    parts: tuple[_Products, ...]


def _products(dst: Indices, src: Indices, wgt: Indices) -> Iterable[_Products]:
    """Group the steps of a gemm by weights, with one matrix product per group.

    The order of additions does not matter, because sums wrap around.
    """
    order = np.lexsort((wgt, dst))
    dst, src, wgt = dst[order], src[order], wgt[order]
    registers, first, counts = np.unique(dst, return_index=True, return_counts=True)
    for count in map(int, np.unique(counts)):
        chosen = np.flatnonzero(counts == count)
        steps: Indices = first[chosen][:, None] + np.arange(count)
        weights, group = np.unique(wgt[steps], axis=0, return_inverse=True)
        group = group.reshape(-1)
        for number, row in enumerate(weights):
            members = np.flatnonzero(group == number)
            yield _Products(registers[chosen[members]], src[steps[members]], row)


def _product(left: Array, right: Array) -> Array:
    """Compute a matrix product in parts small enough for NumPy's library to stay in this thread;
    waking other threads takes longer, especially without free processors."""
    rows = max(1, _SMALL_PRODUCT // right.size)
    if len(left) <= rows:
        return left @ right
    return np.concatenate([left[n : n + rows] @ right for n in range(0, len(left), rows)])


def _independent(dst: Indices, src: Indices) -> list[tuple[Indices, Indices]]:
    """Split steps into parts without dependences between different steps of a part.

    A step may read what it writes itself.
    """
    if len(np.unique(dst)) == len(dst) and not np.isin(src[src != dst], dst).any():
        return [(dst, src)]
    parts: list[tuple[Indices, Indices]] = []
    start = 0
    written: set[int] = set()
    for step, (to, of) in enumerate(zip(dst.tolist(), src.tolist(), strict=True)):
        if to in written or of in written:
            parts.append((dst[start:step], src[start:step]))
            start = step
            written = set()
        written.add(to)
    return [*parts, (dst[start:], src[start:])]


def _shift(left: Array, right: Array) -> Array:
    return np.where(right >= 0, left >> np.maximum(right, 0), left << np.maximum(-right, 0))


def _multiply_high(left: Array, right: Array) -> Array:
    """Return the high half of twice the product, rounded to nearest, ties upwards. Only the
    square of the minimum overflows; it saturates."""
    return np.minimum((left * right + (1 << 30)) >> 31, (1 << 31) - 1)


_ALU: dict[AluCode, Callable[[Array, Array], Array]] = {
    AluCode.MIN: np.minimum,
    AluCode.MAX: np.maximum,
    AluCode.ADD: np.add,
    AluCode.SHR: _shift,
    AluCode.MULH: _multiply_high,
}
