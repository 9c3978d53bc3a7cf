"""transpose-gathers: gathers of adjacent columns become row loads and a transposition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    ModuleOp,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.vector_ import GatherOp
from tcopt.passes.kernel.accesses.constant_vectors import base_and_offset, constant_step
from tcopt.passes.kernel.accesses.lane_layouts import constant_prefix
from tcopt.passes.kernel.accesses.register_squares import CHUNK_BITS, transpose_chunks
from tcopt.passes.kernel.cleanup.effects import accessed, effects_of
from tcopt.support.ir.literals import number_attr
from tcopt.support.ir.rewriting import rewrite

_FEWEST_COLUMNS = 4
"""Minimum number of gathers to replace."""


@dataclass
class TransposeGathers(RewritePattern):
    """Replace gathers of a tile's columns by loads of its rows and a transposition.

    %a = vector.gather %x[%i, %j][%rows], %on, %p    // %rows = [0, 1024]
    %b = vector.gather %x[%i, %j + 1][%rows], %on, %p
    ->
    %0 = vector.load %x[%i, %j] : memref<64x1024xf64>, vector<2xf64>
    %1 = vector.load %x[%i, %j + 1024] : memref<64x1024xf64>, vector<2xf64>
    %a = vector.shuffle %0, %1 [0, 2]
    %b = vector.shuffle %0, %1 [1, 3]
    """

    _alone: set[Operation] = field(default_factory=set[Operation], init=False)
    """Gathers in tiles with too few columns, which are not visited again."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GatherOp, rewriter: PatternRewriter) -> None:
        tile = None if op in self._alone else _tile_from(op)
        for run in () if tile is None else _runs(tile):
            if len(run.columns) >= _FEWEST_COLUMNS:
                _Transposition(run, rewriter).run()
            else:
                self._alone.update(run.columns.values())


@dataclass(frozen=True)
class TransposeGathersPass(ModulePass):
    """Replaces gathers of adjacent columns of a tile by loads of its rows and shuffles.

    A gather of 16 lanes costs 16 loads. Gathers whose lanes are adjacent in memory together read
    the rows of a tile. The rows are loaded and transposed in registers, with four shuffles per
    vector of 16 lanes.

    ```mlir
    %a = vector.gather %x[%i, %j][%rows], %on, %p    // %rows = [0, 1024, 2048, 3072]
    %b = vector.gather %x[%i, %j + 1][%rows], %on, %p
    %c = vector.gather %x[%i, %j + 2][%rows], %on, %p
    %d = vector.gather %x[%i, %j + 3][%rows], %on, %p
    ```
    becomes
    ```mlir
    %0 = vector.load %x[%i, %j] : memref<64x1024xf32>, vector<4xf32>
    %1 = vector.load %x[%i, %j + 1024] : memref<64x1024xf32>, vector<4xf32>
    ...
    %4 = vector.shuffle %0, %1 [0, 4, 1, 5]
    ...
    %a = vector.shuffle %4, %6 [0, 1, 4, 5]
    ```

    Rows of lanes that a constant mask turns off are not loaded. If fewer columns than lanes are
    gathered, or the mask is a `vector.create_mask`, rows are loaded with a mask.
    """

    name = "transpose-gathers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [TransposeGathers()])


@dataclass
class _Tile:
    """Gathers of one block that differ by constants in the last index.

    Attributes:
        columns: the gathers by their constant.
        stride: elements from one lane's address to the next one's.
        rows: number of lanes that are or may be active.
        last: value to which the constants are added; None for zero.
        count: number of active lanes, if it is not constant.
    """

    columns: dict[int, GatherOp]
    stride: int
    rows: int
    last: SSAValue | None
    count: SSAValue | None


def _tile_from(op: GatherOp) -> _Tile | None:
    """Collect the gathers of a tile from a given one up to a write that may alias."""
    found = _column_of(op)
    if found is None:
        return None
    key, offset, tile = found
    tile.columns[offset] = op
    following = op.next_op
    while following is not None:
        if isinstance(following, GatherOp):
            if following.base is op.base and following.mask is op.mask:
                other = _column_of(following)
                if other is not None and other[0] == key:
                    tile.columns.setdefault(other[1], following)
        elif effects_of(following).writes:
            buffers = accessed(following)
            if buffers is None or op.base in buffers:
                break
        following = following.next_op
    return tile


def _column_of(op: GatherOp) -> tuple[tuple[Any, ...], int, _Tile] | None:
    """Return the key shared by all gathers of a tile, this one's column, and an empty tile."""
    type_ = op.result.type
    assert isa(type_, VectorType)
    stride, rows, count = constant_step(op.index_vec), constant_prefix(op.mask), None
    if isinstance(op.mask.owner, vector.CreateMaskOp):
        rows, (count,) = type_.get_shape()[0], op.mask.owner.mask_dim_sizes
    if stride is None or rows is None or not _is_square(type_):
        return None
    *outer, (last, offset) = [base_and_offset(index) for index in op.indices]
    key = (tuple(outer), last, stride, rows, op.pass_thru, type_)
    return key, offset, _Tile({}, stride, rows, last, count)


def _runs(tile: _Tile) -> Iterator[_Tile]:
    """Yield parts of a tile with adjacent columns, at most as many as a vector has lanes."""
    lanes = _lanes(next(iter(tile.columns.values())))
    run: list[int] = []
    for offset in sorted(tile.columns):
        if run and (offset != run[-1] + 1 or len(run) == lanes):
            yield replace(tile, columns={c: tile.columns[c] for c in run})
            run = []
        run.append(offset)
    yield replace(tile, columns={c: tile.columns[c] for c in run})


class _Transposition:
    """Writes one tile's rows and shuffles before its first gather."""

    def __init__(self, tile: _Tile, rewriter: PatternRewriter):
        self.tile = tile
        self.rewriter = rewriter
        self.first = min(tile.columns.values(), key=_place)
        self.lanes = _lanes(self.first)
        self.type = self.first.result.type

    def run(self) -> None:
        tile = self.tile
        self.rewriter.insertion_point = InsertPoint.before(self.first)
        low = min(tile.columns)
        rows = [self._row(low + row * tile.stride, row) for row in range(tile.rows)]
        if len(rows) < self.lanes:
            rows += [self._splat()] * (self.lanes - len(rows))
        assert isa(self.type, VectorType)
        columns = self._transpose(rows, CHUNK_BITS // _bits(self.type))
        for offset, gather in tile.columns.items():
            value = columns[offset - low]
            if tile.rows < self.lanes or tile.count is not None:
                value = self._insert(SelectOp(gather.mask, value, gather.pass_thru))
            value.name_hint = gather.result.name_hint
            self.rewriter.replace_all_uses_with(gather.result, value)
        for gather in tile.columns.values():
            self.rewriter.erase(gather)

    def _insert(self, op: Operation) -> SSAValue:
        return self.rewriter.insert(op).results[0]

    def _row(self, offset: int, row: int) -> SSAValue:
        """Load contiguous elements at an offset in the last index; zeros for an inactive lane."""
        index = self._index(offset)
        indices = [*self.first.indices[:-1], index]
        mask = self._mask(row)
        if mask is None:
            load = vector.LoadOp.create(
                operands=[self.first.base, *indices], result_types=[self.type]
            )
            return self._insert(load)
        load = vector.MaskedLoadOp(self.first.base, indices, mask, self._splat(), self.type)
        return self._insert(load)

    def _mask(self, row: int) -> SSAValue | None:
        """Return the mask of the columns of a row that are loaded; None for all."""
        wanted, count = len(self.tile.columns), self.tile.count
        mask_type = VectorType(i1, [self.lanes])
        if count is not None:
            is_on = self._insert(arith.CmpiOp(self._constant(row), count, "slt"))
            columns = self._insert(SelectOp(is_on, self._constant(wanted), self._constant(0)))
            return self._insert(vector.CreateMaskOp([columns], mask_type))
        if wanted == self.lanes:
            return None
        bits = [int(lane < wanted) for lane in range(self.lanes)]
        attr = DenseIntOrFPElementsAttr.from_list(mask_type, bits)
        return self._insert(arith.ConstantOp(attr))

    def _constant(self, number: int) -> SSAValue:
        return self._insert(arith.ConstantOp(IntegerAttr(number, IndexType())))

    def _index(self, offset: int) -> SSAValue:
        constant = self._constant(offset)
        if self.tile.last is None:
            return constant
        return self._insert(arith.AddiOp(self.tile.last, constant))

    def _splat(self) -> SSAValue:
        assert isa(self.type, VectorType)
        zero = number_attr(0, self.type.element_type).value.data
        attr = cast(Any, DenseIntOrFPElementsAttr.from_list(self.type, [zero]))  # pyright: ignore
        return self._insert(arith.ConstantOp(attr))

    def _transpose(self, rows: Sequence[SSAValue], chunk: int) -> list[SSAValue]:
        """Transpose a square of rows into columns.

        First the squares of `chunk` rows by `chunk` columns are transposed in place; then the
        chunks of each column are collected from them.
        """
        squares = [
            transpose_chunks(rows[at : at + chunk], self.lanes, chunk, self._shuffle)
            for at in range(0, self.lanes, chunk)
        ]
        result: list[SSAValue | None] = [None] * self.lanes
        for column in range(chunk):
            collected = self._collect([square[column] for square in squares], chunk)
            for position, value in enumerate(collected):
                result[position * chunk + column] = value
        return [value for value in result if value is not None]

    def _collect(self, values: Sequence[SSAValue], chunk: int) -> list[SSAValue]:
        """Transpose a square of chunks: result k has chunk k of each value."""
        if len(values) == 1:
            return list(values)
        chunks = self.lanes // chunk
        halves: list[list[SSAValue]] = []
        for odd in (0, 1):
            parts: list[SSAValue] = []
            for low, high in zip(values[::2], values[1::2], strict=True):
                picks = [
                    base + k * chunk + e
                    for base in (0, self.lanes)
                    for k in range(odd, chunks, 2)
                    for e in range(chunk)
                ]
                parts.append(self._shuffle(low, high, picks))
            halves.append(self._collect(parts, chunk))
        return [value for pair in zip(*halves, strict=True) for value in pair]

    def _shuffle(self, low: SSAValue, high: SSAValue, picks: Sequence[int]) -> SSAValue:
        mask = DenseArrayBase.from_list(i64, picks)
        shuffle = vector.ShuffleOp.create(
            operands=[low, high], result_types=[low.type], properties={"mask": mask}
        )
        return self._insert(shuffle)


def _place(op: Operation) -> int:
    block = op.parent
    assert block is not None
    return block.get_operation_index(op)


def _lanes(op: GatherOp) -> int:
    assert isa(op.result.type, VectorType)
    return op.result.type.get_shape()[0]


def _bits(type_: VectorType[Attribute]) -> int:
    element = type_.element_type
    return element.bitwidth if isinstance(element, FixedBitwidthType) else 64


def _is_square(type_: VectorType[Attribute]) -> bool:
    """Whether a square of such vectors splits into chunks that can be transposed."""
    lanes, bits = type_.get_shape()[0], _bits(type_)
    chunk = CHUNK_BITS // bits
    return chunk >= 2 and lanes >= chunk and lanes & (lanes - 1) == 0
