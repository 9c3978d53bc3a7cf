"""transpose-scatters: scatters to adjacent columns become a transposition and row stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects.vector_ import ScatterOp
from tcopt.passes.kernel.accesses.constant_vectors import base_and_offset, constant_step
from tcopt.passes.kernel.accesses.lane_layouts import constant_prefix
from tcopt.passes.kernel.accesses.register_squares import CHUNK_BITS, transpose_chunks
from tcopt.passes.kernel.cleanup.effects import accessed
from tcopt.support.ir.rewriting import rewrite


class TransposeScatters(RewritePattern):
    """Replace scatters to a tile's columns by a transposition and stores of its rows.

    vector.scatter %y[%i, %j][%rows], %on, %a        // %rows = [0, 784]
    vector.scatter %y[%i, %j + 1][%rows], %on, %b
    ->
    %0 = vector.shuffle %a, %b [0, 2]
    %1 = vector.shuffle %a, %b [1, 3]
    vector.store %0, %y[%i, %j] : memref<64x784xf64>, vector<2xf64>
    vector.store %1, %y[%i, %j + 784] : memref<64x784xf64>, vector<2xf64>
    """

    def __init__(self) -> None:
        self._alone: set[Operation] = set()
        """Scatters in tiles that were visited already."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ScatterOp, rewriter: PatternRewriter) -> None:
        tile = None if op in self._alone else _tile_from(op)
        if tile is None:
            return
        self._alone.update(tile.columns.values())
        for columns in _squares(tile):
            _Transposition(columns, tile, rewriter).run()


@dataclass(frozen=True)
class TransposeScattersPass(ModulePass):
    """Replaces scatters to adjacent columns of a tile by shuffles and stores to its rows.

    A scatter of 8 lanes costs 8 stores. Scatters whose lanes are adjacent in memory together write
    the rows of a tile: 4 of them are transposed within chunks of registers, with one shuffle per
    two stores, and each row is stored at once.

    ```mlir
    vector.scatter %y[%i, %j][%rows], %on, %a        // %rows = [0, 784, 1568, 2352]
    vector.scatter %y[%i, %j + 1][%rows], %on, %b
    vector.scatter %y[%i, %j + 2][%rows], %on, %c
    vector.scatter %y[%i, %j + 3][%rows], %on, %d
    ```
    becomes
    ```mlir
    %0 = vector.shuffle %a, %b [0, 4, 1, 5]
    %1 = vector.shuffle %a, %b [2, 6, 3, 7]
    ...
    %4 = vector.shuffle %0, %2 [0, 1, 4, 5]
    ...
    vector.store %4, %y[%i, %j] : memref<64x784xf32>, vector<4xf32>
    vector.store %5, %y[%i, %j + 784]
    ...
    ```

    Two remaining scatters are stored in pairs, and a single one is unchanged. Lanes that a constant
    mask turns off are not stored.
    """

    name = "transpose-scatters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [TransposeScatters()])


@dataclass
class _Tile:
    """Scatters of one block whose addresses differ by constants, and which do not overlap.

    Attributes:
        key: shared by all scatters.
        stride: elements from one lane's address to the next one's.
        rows: number of active lanes.
        columns: the scatters by their constant, in elements.
    """

    key: tuple[Any, ...]
    stride: int
    rows: int
    columns: dict[int, ScatterOp]

    def takes(self, other: _Tile, offset: int) -> bool:
        """Whether a scatter, given as a tile of its own, can join this tile."""
        return self.key == other.key and not any(
            (known - offset) % self.stride == 0 and abs(known - offset) // self.stride < self.rows
            for known in self.columns
        )


def _tile_from(op: ScatterOp) -> _Tile | None:
    """Collect the scatters of a tile from a given one up to an access that may alias."""
    part = _column_of(op)
    if part is None:
        return None
    tile, offset = part
    tile.columns[offset] = op
    following = op.next_op
    while following is not None:
        if isinstance(following, ScatterOp):
            if following.base is op.base:
                other = _column_of(following)
                if other is None or not tile.takes(*other):
                    break
                tile.columns[other[1]] = following
        elif (buffers := accessed(following)) is None or op.base in buffers:
            break
        following = following.next_op
    return tile


def _column_of(op: ScatterOp) -> tuple[_Tile, int] | None:
    """Return a new tile for a scatter, and its column."""
    stride, rows = constant_step(op.index_vec), constant_prefix(op.mask)
    type_ = op.value_to_store.type
    assert isa(type_, VectorType)
    if stride is None or stride < 2 or rows is None or _chunk(type_) < 2:
        return None
    buffer = op.base.type
    assert isa(buffer, MemRefType)
    if not isinstance(buffer.layout, NoneAttr):
        return None
    bases: list[SSAValue | None] = []
    address = 0
    for index, extent in zip(op.indices, buffer.get_shape(), strict=True):
        base, offset = base_and_offset(index)
        bases.append(base)
        address = address * extent + offset
    return _Tile((tuple(bases), stride, op.mask, type_), stride, rows, {}), address


def _squares(tile: _Tile) -> Iterator[list[ScatterOp]]:
    """Yield groups of scatters to adjacent columns, a power of two that fits a chunk."""
    first = next(iter(tile.columns.values()))
    assert isa(first.value_to_store.type, VectorType)
    most = _chunk(first.value_to_store.type)
    offsets = sorted(tile.columns)
    at = 0
    while at < len(offsets):
        end = at + 1
        while end < len(offsets) and offsets[end] == offsets[end - 1] + 1:
            end += 1
        while at < end:
            count = 1 << (min(end - at, most).bit_length() - 1)
            if count > 1:
                yield [tile.columns[offset] for offset in offsets[at : at + count]]
            at += count


class _Transposition:
    """Writes the shuffles and stores of one square at the position of its last scatter.

    Attributes:
        columns: the scatters, in the order of their columns.
    """

    def __init__(self, columns: Sequence[ScatterOp], tile: _Tile, rewriter: PatternRewriter):
        self.columns = columns
        self.rewriter = rewriter
        self.tile = tile
        type_ = columns[0].value_to_store.type
        assert isa(type_, VectorType)
        self.type = type_
        block = columns[0].parent
        assert block is not None
        self.rewriter.insertion_point = InsertPoint.before(
            max(columns, key=block.get_operation_index)
        )

    def run(self) -> None:
        count = len(self.columns)
        (lanes,) = self.type.get_shape()
        chunk = _chunk(self.type)
        values = [column.value_to_store for column in self.columns]
        runs = chunk // count
        for place, value in enumerate(transpose_chunks(values, lanes, chunk, self._shuffle)):
            for start in range(0, lanes, chunk):
                for run in range(runs):
                    row = start + place * runs + run
                    if row < self.tile.rows:
                        first = start + run * count
                        self._store(value, range(first, first + count), row)
        for column in self.columns:
            self.rewriter.erase(column)

    def _store(self, value: SSAValue, picks: Sequence[int], row: int) -> None:
        """Store the picked lanes contiguously in a row."""
        if len(picks) < self.type.get_shape()[0]:
            value = self._shuffle(value, value, picks)
        *outer, last = self.columns[0].indices
        if row:
            distance = IntegerAttr(row * self.tile.stride, IndexType())
            last = self._insert(arith.AddiOp(last, self._insert(arith.ConstantOp(distance))))
        operands = [value, self.columns[0].base, *outer, last]
        self.rewriter.insert(vector.StoreOp.create(operands=operands))

    def _shuffle(self, low: SSAValue, high: SSAValue, picks: Sequence[int]) -> SSAValue:
        mask = DenseArrayBase.from_list(i64, picks)
        shuffle = vector.ShuffleOp.create(
            operands=[low, high],
            result_types=[VectorType(self.type.element_type, [len(picks)])],
            properties={"mask": mask},
        )
        return self._insert(shuffle)

    def _insert(self, op: Operation) -> SSAValue:
        return self.rewriter.insert(op).results[0]


def _chunk(type_: VectorType[Attribute]) -> int:
    """Return the lanes of a chunk that is transposed separately; 1 if vectors have no chunks."""
    (lanes,) = type_.get_shape()
    element = type_.element_type
    bits = element.bitwidth if isinstance(element, FixedBitwidthType) else 64
    chunk = min(CHUNK_BITS // bits, lanes)
    return chunk if chunk & (chunk - 1) == 0 and lanes % chunk == 0 else 1
