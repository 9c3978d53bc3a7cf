"""transpose-scatters: columns scattered one after the other become rows, transposed and stored."""

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
from tcopt.support.rewriting import rewrite


class TransposeScatters(RewritePattern):
    """Transpose what some scatters of a block write to columns of a tile, and store its rows.

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
        """Scatters in tiles that were looked at already."""

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
    """Replaces scatters to neighbouring columns of a tile by shuffles and stores to its rows.

    A scatter of 8 lanes costs 8 stores. Scatters that write, lane by lane, neighbours in memory
    write rows of a tile together: 4 of them are transposed within parts of registers, with one
    shuffle for each two stores, and each row is stored at once.

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

    Two that are left over are stored in pairs, and one stays. Lanes that a constant mask turns
    off are not stored.
    """

    name = "transpose-scatters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [TransposeScatters()])


@dataclass
class _Tile:
    """Scatters of one block whose addresses differ by constants, and no two of which write to
    one place.

    Attributes:
        key: what they have in common.
        stride: elements from one lane's address to the next one's.
        rows: lanes that are on.
        columns: the scatters by their constant, in elements.
    """

    key: tuple[Any, ...]
    stride: int
    rows: int
    columns: dict[int, ScatterOp]

    def takes(self, other: _Tile, offset: int) -> bool:
        """Whether a scatter, of a tile of its own, has its place here."""
        return self.key == other.key and not any(
            (known - offset) % self.stride == 0 and abs(known - offset) // self.stride < self.rows
            for known in self.columns
        )


def _tile_from(op: ScatterOp) -> _Tile | None:
    """A scatter, and those behind it up to where something else touches what they write to."""
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
    """The tile that a scatter begins, and its column there."""
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
    """Powers of two of scatters to columns next to each other, no more than fit a chunk."""
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
    """Writes the shuffles and stores of one square in the place of its tile's last scatter.

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
        """Store some lanes next to each other in a row."""
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
    """Lanes of the parts that are transposed on their own; 1 if vectors have no such parts."""
    (lanes,) = type_.get_shape()
    element = type_.element_type
    bits = element.bitwidth if isinstance(element, FixedBitwidthType) else 64
    chunk = min(CHUNK_BITS // bits, lanes)
    return chunk if chunk & (chunk - 1) == 0 and lanes % chunk == 0 else 1
