"""Space of `cpu-blockwise-product`: register tiles, chunks of rows, and threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from tcopt.dialects.intrinsics.code_dots import CODE_BITS, code_dot_name
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.behaviours import behaviour_of, computes
from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    access_bytes,
    element_bits,
    match_block,
)
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.deep_reduction import CHUNK_SHARE
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import blocks_cycles, parallel_loops
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.rules.rule import Declined
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Knob,
    LoopLevel,
    NestKind,
    Operand,
    Point,
    Space,
    parallel_where,
)
from tcopt.schedules.state.state import loops_of
from tcopt.support.arithmetic.columns import ceil_div, most, where
from tcopt.support.arithmetic.sizes import Extent, hint_values

HINTS = 6
"""Number of heights in a range for which costs are estimated."""

MOST_ROWS = 8
"""Maximum number of rows of a tile."""

VECTORS = (1, 2, 4, 8)
"""Candidate numbers of vectors of a tile, which are part of a panel."""

CHUNKS = (1, 2, 4, 8, 16, 32, 64)
"""Candidate numbers of chunks of rows."""

UNPACKING = 2
"""Operations that turn a vector of codes into factors: mask them, and shift or convert."""

DOT = 2
"""Operations that multiply a vector of codes by bytes and add the products to sums."""


@dataclass(frozen=True)
class Blockwise:
    """Blocks of a product, and the roles of the variables of its total.

    Attributes:
        total: the block that sums over blocks of the depth.
        product: the block that sums within a block of the depth.
        rows: the variable of the longest extent that the matrix does not depend on; None for a
            single row.
        columns: the variable along which vectors run.
        blocks: the variable that counts blocks of the depth.
        panel: columns that are adjacent in memory.
        dot: the intrinsic that multiplies the codes of a word, for integer sums.
    """

    total: Block
    product: Block
    pattern: BlockPattern
    inner: BlockPattern
    rows: int | None
    columns: int
    blocks: int
    panel: int
    dot: str | None


def find_blockwise(sch: Schedule) -> Blockwise | Declined:
    """Return the blocks and roles of a blockwise product; decline if there is not exactly one."""
    found: list[Blockwise] = []
    for total in sch.blocks():
        pattern = match_block(sch.block_op(total))
        if pattern is None or len(pattern.reduce) != 1 or not pattern.spatial:
            continue
        for product in sch.producers(total):
            inner = match_block(sch.block_op(product))
            if inner is not None and (roles := _roles(total, pattern, product, inner)):
                found.append(roles)
    if len(found) != 1:
        return Declined(f"{len(found)} blocks sum sums of blocks, one is wanted", quiet=True)
    return found[0]


def _roles(
    total: Block, pattern: BlockPattern, product: Block, inner: BlockPattern
) -> Blockwise | None:
    """Return the roles if `total` sums what `product` has summed over two variables, of which the
    inner one counts the codes of a word."""
    reads = [term for term in pattern.terms if term.buffer is inner.store.buffer]
    (blocks,), columns = pattern.reduce, pattern.spatial[-1]
    if len(reads) != 1 or len(inner.reduce) != 2 or not pattern.store.is_unit(columns):
        return None
    if not reads[0].uses(blocks) or not reads[0].is_unit(columns):
        return None
    own = inner.spatial[-1]
    codes = [term for term in inner.terms if term.uses(own)]
    if len(codes) != 1 or codes[0].uses(inner.reduce[1]):
        return None
    shape = buffer_shape(codes[0].buffer)
    free = [v for v in pattern.spatial if v != columns and pattern.extents[v] > 1]
    rows = max(free, key=lambda v: (pattern.extents[v], v), default=None)
    dot = _dot_of(inner)
    return Blockwise(total, product, pattern, inner, rows, columns, blocks, shape[-1], dot)


def _dot_of(inner: BlockPattern) -> str | None:
    """Return the intrinsic that computes the innermost sum of a block; None if there is none."""
    loops = loops_of(inner.block)[-1:]
    names = map(code_dot_name, CODE_BITS)
    return next((n for n in names if computes(behaviour_of(n), inner.block, loops)), None)


class BlockwiseSpace(Space):
    """Tiles of rows by vectors, and the loops around them."""

    def __init__(self, sch: Schedule, roles: Blockwise, facts: CpuFacts):
        self.roles, self.facts = roles, facts
        pattern, inner = roles.pattern, roles.inner
        self.lanes = facts.lanes(element_bits(pattern.block))
        self.height = 1 if roles.rows is None else pattern.extents[roles.rows]
        live: Extent = 1 if roles.rows is None else pattern.block.live_domain[roles.rows]
        self.heights = hint_values(live, HINTS)
        self.width = pattern.extents[roles.columns]
        self.depth = prod(inner.extents[v] for v in inner.reduce) * pattern.extents[roles.blocks]
        self.batch = prod(pattern.extents[v] for v in pattern.spatial) // (self.height * self.width)
        blocks = [sch.block_op(roles.total), sch.block_op(roles.product)]
        self.time = blocks_cycles(blocks, 2 * inner.work, facts)
        data = next(term for term in inner.terms if not term.uses(inner.spatial[-1]))
        self._row_bytes = self.depth * access_bytes(data)
        vectors = [n for n in VECTORS if roles.panel % (n * self.lanes) == 0]
        chunks = [n for n in CHUNKS if n <= self.height]
        super().__init__(
            [
                Knob("rows", tuple(range(1, min(self.height, MOST_ROWS) + 1))),
                Knob("vectors", tuple(vectors)),
                Knob("chunks", tuple(chunks)),
                Knob("parallel", (0, 1, 2, 3)),
            ]
        )

    @property
    def leading(self) -> tuple[str, ...]:
        return ("rows", "vectors")

    def valid(self, k: Point) -> Column:
        """Sums of a block, vectors of factors, a mask and a broadcast are in registers."""
        return k.rows * k.vectors + k.vectors + 2 <= self.facts.registers

    def estimate(self, k: Point) -> Column:
        """Cycles of one code of a word, over all tiles: the geometric mean over heights, so that
        each counts alike. The last tile has the remaining rows alone.
        """
        total: Column = 1.0
        for height in self.heights:
            rest = height % k.rows
            cycles = height // k.rows * self._step(k.rows, k.vectors)
            cycles = cycles + where(rest > 0, self._step(rest, k.vectors), 0)
            total = total * cycles ** (1 / len(self.heights))
        return total * ceil_div(self.width, k.vectors * self.lanes)

    def _step(self, rows: Column, vectors: Column) -> Column:
        """Return the cycles of one code of a word in a tile."""
        facts, sums = self.facts, rows * vectors
        products = 1 if self.roles.dot is None else DOT
        # One broadcast for each row.
        operations = products * sums + UNPACKING * vectors + rows
        return most(most(operations / facts.issue, sums / facts.fma_units), facts.fma_latency)

    def ties(self, k: Point) -> Sequence[Column]:
        """Prefer more sums in registers."""
        return (-k.rows * k.vectors,)

    def complete(self, leading: Choice) -> dict[str, int]:
        tiles = ceil(self.height / leading["rows"])
        fit = max(self.facts.l2 // CHUNK_SHARE // (leading["rows"] * self._row_bytes), 1)
        values = next(knob.values for knob in self.knobs if knob.name == "chunks")
        chunks = next((n for n in values if n * fit >= tiles), values[-1])
        chosen = {**leading, "chunks": chunks}
        k = Point(chosen)
        extents = [self.batch] if self.batch > 1 else []
        extents += [self._chunk_count(k), self._panels(k)] if self.height > 1 else [self._panels(k)]
        return chosen | {"parallel": parallel_loops(extents, self.time, self.facts)}

    def chunk(self, choice: Choice) -> int:
        """Return the number of tiles of rows in a chunk."""
        return ceil(ceil(self.height / choice["rows"]) / choice["chunks"])

    def _chunk_count(self, k: Point) -> Column:
        tiles = ceil_div(self.height, k.rows)
        return ceil_div(tiles, ceil_div(tiles, k.chunks))

    def _panels(self, k: Point) -> Column:
        return ceil_div(self.width, k.vectors * self.lanes)

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        """Return the loops of the sums within a block."""
        inner = self.roles.inner
        *_, blocks, columns = inner.spatial
        rows = inner.spatial[0]
        return [
            LoopLevel(rows, self._chunk_count(k), parallel_where(k.parallel > 0)),
            LoopLevel(columns, self._panels(k), parallel_where(k.parallel > 1)),
            LoopLevel(rows, ceil_div(ceil_div(self.height, k.rows), k.chunks)),
            LoopLevel(blocks, inner.extents[blocks]),
            LoopLevel(inner.reduce[0], inner.extents[inner.reduce[0]]),
            LoopLevel(inner.reduce[1], inner.extents[inner.reduce[1]], NestKind.UNROLLED),
            LoopLevel(rows, k.rows, NestKind.UNROLLED),
            LoopLevel(columns, k.vectors, NestKind.UNROLLED),
            LoopLevel(columns, self.lanes, NestKind.VECTOR),
        ]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.roles.inner)
