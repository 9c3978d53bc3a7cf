"""The pass `pair-row-exchanges`, which lets one instruction load the fragments of two.

A walk by hand: which exchanges can be combined depends on the addresses of all in a block.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import arith, gpu, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import vector_
from tcopt.dialects.fragments import LANES, MATRIX
from tcopt.dialects.gpu_kernels import BLOCK_SIZE, KERNEL, sizes_of
from tcopt.dialects.simt import ExchangeRowsOp
from tcopt.passes.kernel.accesses.constant_vectors import base_and_offset
from tcopt.passes.kernel.cleanup.effects import accessed, effects_of

MOST_MATRICES = 4
"""Matrices that one instruction loads."""


@dataclass(frozen=True)
class PairRowExchangesPass(ModulePass):
    """Combine exchanges of rows whose addresses differ by a constant.

        %a = vector.load %s[%row, %c0] : memref<16x40xf16, 3>, vector<8xf16>
        %0 = simt.exchange_rows transposed %a : vector<8xf16> to vector<4xf16>
        ...
        %b = vector.load %s[%row, %c8] : memref<16x40xf16, 3>, vector<8xf16>
        %1 = simt.exchange_rows transposed %b : vector<8xf16> to vector<4xf16>
        ->
        %h = arith.divui %lane, %c16 : index
        %o = arith.muli %h, %c8 : index
        ...
        %a = vector.load %s[%row, %o] : memref<16x40xf16, 3>, vector<8xf16>
        %2 = simt.exchange_rows transposed %a : vector<8xf16> to vector<8xf16>
        %0 = vector.extract_strided_slice %2 {offsets = [0], sizes = [4], strides = [1]}
        %1 = vector.extract_strided_slice %2 {offsets = [4], sizes = [4], strides = [1]}

    An exchange uses the rows of only eight lanes for each matrix. In the combined exchange, the
    next lanes provide the rows of the second. Blocks must have warps along x. The pass runs after
    `promote-registers`.
    """

    name = "pair-row-exchanges"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and KERNEL in function.attributes:
                _pair_in(function)


def _pair_in(function: FuncOp) -> None:
    exchanges = [op for op in function.walk() if isinstance(op, ExchangeRowsOp)]
    lane = _lane_of(function)
    if not exchanges or lane is None:
        return
    offsets = _Offsets(lane)
    matrices = 1
    while 2 * matrices <= MOST_MATRICES:
        for block in {each.parent: None for each in exchanges if each.parent is not None}:
            _pair(block, matrices, offsets)
        matrices *= 2


def _lane_of(function: FuncOp) -> SSAValue | None:
    """Return the index along x, if it is the number of the lane."""
    if sizes_of(function, BLOCK_SIZE)[0] != LANES:
        return None
    for op in function.body.block.ops:
        if isinstance(op, gpu.ThreadIdOp) and op.dimension.data is gpu.DimensionEnum.X:
            return op.result
    return None


@dataclass(frozen=True)
class _Row:
    """An exchange, and the row that it loads: each index is a value and a constant."""

    op: ExchangeRowsOp
    load: vector.LoadOp
    bases: tuple[SSAValue | None, ...]
    constants: tuple[int, ...]

    @classmethod
    def of(cls, op: ExchangeRowsOp) -> _Row | None:
        load = op.row.owner
        if not isinstance(load, vector.LoadOp) or load.next_op is not op:
            return None
        if not load.result.has_one_use():
            return None
        parts = [base_and_offset(value) for value in load.indices]
        return cls(op, load, tuple(b for b, _ in parts), tuple(c for _, c in parts))

    def differs_at(self, other: _Row) -> int | None:
        """Return the only index by which two rows differ; None if they differ otherwise."""
        if self.load.base is not other.load.base or self.bases != other.bases:
            return None
        if self.op.transposed != other.op.transposed or self.op.row.type != other.op.row.type:
            return None
        pairs = zip(self.constants, other.constants, strict=True)
        found = [dim for dim, (a, b) in enumerate(pairs) if a != b]
        return found[0] if len(found) == 1 else None


@dataclass
class _Offsets:
    """Indices that depend on the lane, each computed once in a block."""

    lane: SSAValue
    known: dict[tuple[object, ...], SSAValue] = field(
        default_factory=dict[tuple[object, ...], SSAValue]
    )

    def of_half(self, matrices: int, distance: int) -> SSAValue:
        """Return `distance` in lanes that provide the second half of twice `matrices`, else 0."""
        half = self._after(arith.DivUIOp, self.lane, matrices * MATRIX)
        if 2 * matrices * MATRIX < LANES:
            half = self._after(arith.RemUIOp, half, 2)
        return self._after(arith.MuliOp, half, distance)

    def sum(self, base: SSAValue | None, offset: SSAValue, number: int, at: Operation) -> SSAValue:
        """Return the sum of an index, an offset and a constant, for use by an op."""
        total = offset
        if base is not None:
            key = (at.parent, base, offset)
            if key not in self.known:
                op = arith.AddiOp(base, offset)
                Rewriter.insert_op(op, InsertPoint.before(at))
                self.known[key] = op.result
            total = self.known[key]
        if not number:
            return total
        key = (at.parent, total, number)
        if key not in self.known:
            self.known[key] = _insert(arith.AddiOp, total, number, InsertPoint.before(at))
        return self.known[key]

    def _after(self, kind: type[_Arithmetic], value: SSAValue, number: int) -> SSAValue:
        """Return the result of an op that follows the definition of its first operand."""
        key = (kind, value, number)
        if key not in self.known:
            self.known[key] = _insert(kind, value, number, InsertPoint.after(_owner(value)))
        return self.known[key]


_Arithmetic = arith.AddiOp | arith.DivUIOp | arith.MuliOp | arith.RemUIOp


def _insert(kind: type[_Arithmetic], value: SSAValue, number: int, place: InsertPoint) -> SSAValue:
    constant = arith.ConstantOp(IntegerAttr(number, IndexType()))
    op = kind(value, constant)
    Rewriter.insert_op([constant, op], place)
    return op.results[0]


def _owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def _pair(block: Block, matrices: int, offsets: _Offsets) -> None:
    """Combine the exchanges of a block that have a number of matrices."""
    waiting: list[_Row] = []
    for op in tuple(block.ops):
        if isinstance(op, ExchangeRowsOp) and op.matrices == matrices:
            row = _Row.of(op)
            if row is None:
                continue
            found = [each for each in waiting if each.differs_at(row) is not None]
            if found:
                waiting.remove(found[0])
                _combine(found[0], row, offsets)
            else:
                waiting.append(row)
        elif op.regions or isinstance(op, gpu.BarrierOp):
            waiting.clear()
        elif effects_of(op).writes:
            touched = accessed(op)
            waiting = [e for e in waiting if touched is not None and e.load.base not in touched]


def _combine(first: _Row, second: _Row, offsets: _Offsets) -> None:
    dim, matrices = first.differs_at(second), first.op.matrices
    assert dim is not None
    distance = second.constants[dim] - first.constants[dim]
    offset = offsets.of_half(matrices, distance)
    index = offsets.sum(first.bases[dim], offset, first.constants[dim], first.load)
    first.load.operands[1 + dim] = index
    row = ExchangeRowsOp(
        first.load.result, 2 * matrices, transposed=first.op.transposed is not None
    )
    row.location = first.op.location
    Rewriter.insert_op(row, InsertPoint.before(first.op))
    for number, each in enumerate((first, second)):
        width = 2 * matrices
        part = vector_.ExtractStridedSliceOp(row.result, [width * number], [width])
        Rewriter.insert_op(part, InsertPoint.before(first.op))
        each.op.result.replace_all_uses_with(part.results[0])
    for each in (first, second):
        Rewriter.erase_op(each.op)
    Rewriter.erase_op(second.load)
