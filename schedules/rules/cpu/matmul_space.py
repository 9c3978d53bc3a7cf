"""Space of `cpu-matmul`: register tiles, chunks of rows, parts of the depth, and threads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import access_bytes, element_bits, step_bytes
from tcopt.schedules.rules.cpu.deep_reduction import CHUNK_SHARE, MAX_PARTS, MIN_TASKS, PART_SHARE
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import blocks_cycles, parallel_loops
from tcopt.schedules.rules.cpu.product import Product
from tcopt.schedules.rules.cpu.tile_space import STEPS
from tcopt.schedules.rules.operands import operands_of
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
from tcopt.support.arithmetic.columns import ceil_div, where
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.machines.matmul_tiles import MAX_ROWS, MatmulTile, best_tile, fits, tile_cost
from tcopt.support.machines.register_tiles import MAX_VECTORS

MOST_STEPS = 4
"""Maximum number of unrolled steps without measuring."""

MOST_ROWS = 14
"""Maximum number of rows of a tile."""

MIN_ROUNDS = 8
"""Minimum trip count of a reduction for which separate code for the last iteration pays off."""

CHUNKS = (1, 2, 4, 8, 16, 32)
"""Candidate numbers of chunks."""

NEAR_TILES = 24
"""Number of tiles of rows that must fit half of L2 for a chunk to be sized to stay there; it
justifies reading the panels once per chunk."""

NEAR = 4
"""Maximum bytes of other chunks, as a multiple of L2: their rows are read from the next cache level
once per panel."""

COPY_TILES = 16
"""Minimum number of tiles of rows for which copying the columns that they read pays off."""

MAX_STREAMS = 3
"""Maximum number of panels that a single row processes together. Each is a separate stream for the
hardware prefetcher, which restarts at every page."""

MIN_TILES = 4
"""Minimum number of tiles of rows in a chunk, below which a panel is hardly reused."""

ROWS_OUTSIDE, COLUMNS_OUTSIDE = 0, 1
"""Orders of the loops over chunks of rows and panels of columns."""


@dataclass(frozen=True)
class Between:
    """A loop between tiles: the variable that it moves, and its trip count."""

    variable: int
    extent: Column


class MatmulSpace(Space):
    """Tiles of a matrix product, and the loops around them.

    Args:
        moving: the variables that have a loop.
    """

    def __init__(self, product: Product, moving: Collection[int], facts: CpuFacts):
        self.product, self.facts = product, facts
        pattern = product.pattern
        self.lanes = facts.lanes(element_bits(pattern.block))
        self.has_rows = product.rows in moving
        self.has_panels = product.columns in moving and product.width > self.lanes
        own = (product.rows, product.columns)
        self.batch = [v for v in pattern.spatial if v in moving and v not in own]
        others = [v for v in pattern.spatial if v in moving and v != product.rows]
        self._beside = prod(pattern.extents[v] for v in others) // product.width
        self.given = (product.panel or self._whole_rows()) // self.lanes or None
        self.time = blocks_cycles([pattern.block], 2 * pattern.work, facts)
        self._first = self._complete(
            best_tile(product.height, product.width, self.lanes, facts, self.given)
        )
        super().__init__(self._make_knobs())

    def _make_knobs(self) -> list[Knob]:
        product, first = self.product, self._first
        depth = product.depth // product.group
        widest = min(MAX_VECTORS, ceil(product.width / self.lanes))
        loops = len(self.batch) + self.has_rows + self.has_panels
        has_order = self.has_rows and self.has_panels
        parts = [n for n in range(1, MAX_PARTS + 1) if depth % n == 0]
        chunks = [n for n in CHUNKS if n <= product.height]
        return [
            Knob("rows", tuple(range(1, min(product.height, MOST_ROWS) + 1))),
            Knob("vectors", (self.given,) if self.given else tuple(range(1, widest + 1))),
            Knob("parts", tuple(parts) if self._is_tall(1) else (1,)),
            Knob("chunks", tuple(sorted({*chunks, first["chunks"]})) if self.has_rows else (1,)),
            Knob("streams", self._stream_choices()),
            Knob("steps", STEPS),
            Knob(
                "order",
                (ROWS_OUTSIDE, COLUMNS_OUTSIDE) if has_order else (ROWS_OUTSIDE,),
                ("rows outside", "columns outside")[: 1 + has_order],
            ),
            Knob("parallel", tuple(range(loops + 1))),
            Knob("copy", (0, 1) if self._may_copy else (0,), ("no", "yes")[: 1 + self._may_copy]),
            Knob(
                "prefetch",
                (0, 1) if self._may_prefetch else (0,),
                ("no", "yes")[: 1 + self._may_prefetch],
            ),
        ]

    @property
    def leading(self) -> tuple[str, ...]:
        return ("rows", "vectors")

    @property
    def untold(self) -> tuple[str, ...]:
        return ("chunks", "streams", "copy", "prefetch")

    def valid(self, k: Point) -> Column:
        depth = self.product.depth // self.product.group // k.parts
        tiles = ceil_div(self.product.height, k.rows)
        in_registers = fits(MatmulTile(k.rows, k.vectors), self.facts.registers)
        in_registers |= k.rows == 1
        side_by_side = (k.streams == 1) | (k.streams * k.vectors <= self.facts.registers - 2)
        whole = depth % k.steps == 0 if self.product.group > 1 else k.steps <= depth
        in_parts = (k.parts == 1) | self._is_tall(k.rows)
        return in_registers & side_by_side & whole & in_parts & (k.chunks <= tiles)

    def usual(self, k: Point) -> Column:
        return (k.rows <= MAX_ROWS) & (k.vectors <= 4)

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of one step of the reduction over all tiles."""
        tile = MatmulTile(k.rows, k.vectors)
        return tile_cost(self.product.height, self.product.width, self.lanes, self.facts, tile)

    def default(self) -> dict[str, int]:
        """Return the tile with most accumulators among those with nearly the lowest estimate."""
        return dict(self._first)

    def complete(self, leading: Choice) -> dict[str, int]:
        return self._complete(MatmulTile(leading["rows"], leading["vectors"]))

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        product = self.product
        inner = product.pattern.reduce[0]
        levels: list[LoopLevel] = []
        for number, each in enumerate(self.between(k)):
            kind = parallel_where(k.parallel > number)
            levels.append(LoopLevel(each.variable, each.extent, kind))
        levels.append(LoopLevel(inner, k.parts))
        if product.rows is not None:
            tiles = ceil_div(product.height, k.rows)
            levels.append(LoopLevel(product.rows, ceil_div(tiles, k.chunks)))
        rounds = ceil_div(product.depth // product.group, k.parts * k.steps)
        levels.append(LoopLevel(inner, rounds))
        levels.append(LoopLevel(inner, k.steps * product.group, NestKind.UNROLLED))
        if product.rows is not None:
            levels.append(LoopLevel(product.rows, k.rows, NestKind.UNROLLED))
        levels.append(LoopLevel(product.columns, k.streams * k.vectors, NestKind.UNROLLED))
        levels.append(LoopLevel(product.columns, min(self.lanes, product.width), NestKind.VECTOR))
        return levels

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.product.pattern)

    def between(self, k: Point) -> list[Between]:
        """Return the loops between tiles, outermost first."""
        product = self.product
        found = [Between(v, product.pattern.extents[v]) for v in self.batch]
        chunks, panels = self.chunk_count(k), self._panel_count(k)
        if self.has_rows and self.has_panels:
            assert product.rows is not None
            inside = k.order == COLUMNS_OUTSIDE
            found += [
                Between(
                    where(inside, product.columns, product.rows), where(inside, panels, chunks)
                ),
                Between(
                    where(inside, product.rows, product.columns), where(inside, chunks, panels)
                ),
            ]
        elif self.has_rows:
            assert product.rows is not None
            found.append(Between(product.rows, chunks))
        elif self.has_panels:
            found.append(Between(product.columns, panels))
        return found

    def chunk(self, k: Point) -> Column:
        """Return the number of tiles of rows in a chunk."""
        return ceil_div(ceil_div(self.product.height, k.rows), k.chunks)

    def chunk_count(self, k: Point) -> Column:
        """Return the number of chunks, the last of which may be shorter."""
        return ceil_div(ceil_div(self.product.height, k.rows), self.chunk(k))

    def _panel_count(self, k: Point) -> Column:
        return ceil_div(ceil_div(self.product.width, self.lanes * k.vectors), k.streams)

    def _complete(self, tile: MatmulTile) -> dict[str, int]:
        """Return the complete choice for a tile."""
        product, facts = self.product, self.facts
        parts = self._parts(tile.rows, tile.vectors * self.lanes)
        row_bytes = product.depth // parts * access_bytes(product.left)
        tasks = self._beside * ceil(product.width / (tile.vectors * self.lanes))
        tiles = ceil(product.height / tile.rows)
        chunks = _chunks(tiles, tile.rows * row_bytes, tasks, facts) if self.has_rows else 1
        chosen = {
            "rows": tile.rows,
            "vectors": tile.vectors,
            "parts": parts,
            "chunks": chunks,
            "streams": self._stream_choices()[-1],
            "steps": _steps(product.depth // parts // product.group, whole=product.group > 1),
            "order": ROWS_OUTSIDE,
        }
        k = Point(chosen)
        extents = [each.extent for each in self.between(k)]
        of_chunk = self.chunk(k) if self.has_rows else 1
        copies = bool(extents) and parts == 1 and of_chunk >= COPY_TILES and self._has_conflicts
        size = prod(buffer_shape(product.right.buffer)) * access_bytes(product.right)
        fetches = bool(extents) and self._may_prefetch and size > facts.l2 and of_chunk > 1
        return chosen | {
            "parallel": parallel_loops(extents, self.time, facts),
            "copy": int(copies),
            "prefetch": int(fetches),
        }

    @cached_property
    def _may_copy(self) -> bool:
        """Whether columns of the RHS may be copied to a buffer with contiguous rows."""
        return not self.product.panel and bool(self.batch or self.has_rows or self.has_panels)

    @cached_property
    def _may_prefetch(self) -> bool:
        """Whether there is a next panel to prefetch."""
        found = self.batch or self.has_rows or self.has_panels
        return bool(self.product.panel) and self.product.dot is None and bool(found)

    @cached_property
    def _has_conflicts(self) -> bool:
        """Whether the rows of the RHS that a tile reads evict one another from L1.

        This happens if their stride is a multiple of a large power of two, as they share few sets.
        """
        product = self.product
        distance = step_bytes(product.right, product.pattern.reduce[0])
        if product.panel or not distance:
            return False
        places = self.facts.l1 // max(distance & -distance, ALIGNMENT)
        return 2 * product.depth > places

    def _is_tall(self, rows: Column) -> Column:
        """Whether several tiles of rows pass over a panel."""
        return (self.product.height >= MIN_TILES * rows) & self.has_rows

    def _whole_rows(self) -> int:
        """Return the columns of a tile that reads the whole RHS in memory order.

        0 if its rows are too long, or must be divided among threads. The product of a single row is
        limited by the bandwidth of these reads.
        """
        product, facts = self.product, self.facts
        extents, width = product.pattern.extents, product.width
        batch = prod(extents[v] for v in product.pattern.spatial) // width
        if product.height > 1 or product.dot is not None or batch < MIN_TASKS * facts.cores:
            return 0
        fits_whole = width // self.lanes <= facts.registers - 2
        return width if width % self.lanes == 0 and fits_whole else 0

    def _stream_choices(self) -> tuple[int, ...]:
        """Return candidate numbers of panels in a tile.

        There are several for a single row, which is limited by memory bandwidth.
        """
        product, facts = self.product, self.facts
        if product.height > 1 or not product.panel or product.dot is not None:
            return (1,)
        panels = ceil(product.width / product.panel)
        in_registers = (facts.registers - 2) // (product.panel // self.lanes)
        most = min(MAX_STREAMS, in_registers, panels // (MIN_TASKS * facts.cores))
        return tuple(n for n in range(1, most + 1) if panels % n == 0) or (1,)

    def _parts(self, rows: int, width: int) -> int:
        """Return the number of parts of the depth for which a panel fits its share of the cache.

        1 if there are too few tiles of rows to reuse a panel.
        """
        product = self.product
        if product.height < MIN_TILES * rows:
            return 1
        panel = product.depth * width * access_bytes(product.right)
        wanted = panel / (self.facts.l2 / PART_SHARE)
        whole = (n for n in range(1, MAX_PARTS + 1) if product.depth % (n * product.group) == 0)
        return next((n for n in whole if n >= wanted), 1)


def _chunks(tiles: int, size: int, tasks: int, facts: CpuFacts) -> int:
    """Return the number of chunks of rows.

    Few chunks, so that a panel is read few times, but enough for all threads, and small enough for
    the rows of the LHS to stay in cache. Chunks have equal size if possible.

    Args:
        tiles: total number of tiles of rows.
        size: bytes of the LHS that a tile reads.
        tasks: parallel iterations in addition to the chunks of rows.
    """
    tasks = max(tasks, 1)
    fit = facts.l2 // CHUNK_SHARE // max(size, 1)
    if fit < NEAR_TILES:
        fit = max(NEAR * facts.l2 // max(size, 1), MIN_TILES)
    wanted = min(max(ceil(tiles / fit), ceil(MIN_TASKS * facts.cores / tasks)), tiles)
    even = next(n for n in range(wanted, tiles + 1) if tiles % n == 0)
    return even if even <= 2 * wanted or tasks < facts.cores else wanted


def _steps(depth: int, *, whole: bool) -> int:
    """Return the number of reduction steps in one iteration of its loop.

    Args:
        whole: whether it must divide the depth; otherwise the last iteration may be shorter.
    """
    if depth >= MIN_ROUNDS * MOST_STEPS and not whole:
        return MOST_STEPS
    return max(n for n in STEPS if n <= MOST_STEPS and depth % n == 0)
