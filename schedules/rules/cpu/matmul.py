"""Matrix products: register tiles of rows by vectors, over panels of the right operand.

    parallel over chunks of rows and panels of columns
      for each tile of rows
        accumulators = 0                           rows x vectors, in registers
        for each step of the reduction
          for each row:    broadcast one element of the left operand
          for each vector: multiply-add with a vector of the panel
        epilogue on the tile, one store

A panel (the reduction's depth by a tile's width) stays in the second level of cache while the
tiles of a chunk of rows pass over it. Where the reduction is too deep for that, all tiles of a
chunk are given one part of it after the other, and partial results are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr

from tcopt.dialects.graph.forms import CONTRACTION
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.dots import Dot, dot_of, lane_dim
from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    access_bytes,
    element_bits,
    match_block,
    step_bytes,
)
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import parallelize
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.epilogue import attach_epilogue, blocks_beside, take_epilogue
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.state.state import buffers_read
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.matmul_tiles import MAX_ROWS, MatmulTile, best_tile, tile_cost

STEPS = (1, 2, 4)
"""How many steps of a reduction may be written out."""

MIN_ROUNDS = 8
"""Rounds of a reduction for which it pays to write out code of its own for the last one."""

MAX_PARTS = 16
"""Parts of a reduction at most: each takes a buffer of partial results."""

MIN_TASKS = 2
"""Parallel iterations for each core at least."""

NEAR = 4
"""How many times the second level of cache the rows of a chunk may take up: they come from
the next one, a panel at a time."""

PANEL_SHARE = 6
"""A panel takes up at most this part of the second level of cache."""

COPY_TILES = 16
"""Tiles of rows for which it pays to copy the columns of the right operand that they read."""

MAX_STREAMS = 3
"""Panels that a single row passes over side by side. Each is a stream of its own to what
fetches memory ahead, and that begins anew with every page."""

MIN_TILES = 4
"""Tiles of rows in a chunk at least, below which a panel is hardly used more than once."""


@dataclass(frozen=True)
class Product:
    """A block that multiplies matrices, and what its variables are.

    Attributes:
        rows: the variable of the tile's rows, on which the right operand does not depend;
            None for a single row.
        columns: the variable that vectors lie along.
        panel: columns of a panel of the right operand; 0 if it is stored row by row.
        dot: the hardware's dot product that the right operand is stored for, if there is one.
    """

    pattern: BlockPattern
    left: StridedAccess
    right: StridedAccess
    rows: int | None
    columns: int
    panel: int
    dot: Dot | None = None

    @property
    def group(self) -> int:
        """Terms of a sum that are added at once."""
        return 1 if self.dot is None else self.dot.group

    @property
    def depth(self) -> int:
        """Terms of a sum."""
        return self.pattern.extents[self.pattern.reduce[0]]


@schedule_rule(target="cpu", priority=120)
class Matmul:
    """Rule for products of matrices, batched or not, whose right operand has vectors."""

    name = "cpu-matmul"
    provides = (CONTRACTION,)

    def apply(self, sch: Schedule, facts: CpuFacts) -> Declined | None:
        patterns = [match_block(sch.block_op(block)) for block in sch.blocks()]
        sums = [p for p in patterns if p is not None and p.is_contraction]
        if len(sums) != 1:
            return Declined(f"{len(sums)} blocks add products of two loaded values, one is wanted")
        product = find_product(sums[0], dot_of(sums[0], facts.capabilities))
        if isinstance(product, Declined):
            return product
        lanes = facts.lanes(element_bits(product.pattern.block))
        if product.panel % lanes:
            return Declined(f"panels of {product.panel} columns are not whole vectors of {lanes}")
        schedule_product(sch, product, facts)
        return None


def find_product(pattern: BlockPattern, dot: Dot | None = None) -> Product | Declined:
    """The parts of a block's variables and operands, or why it is no product of matrices."""
    if len(pattern.reduce) != 1 or len(pattern.terms) != 2:
        return Declined("it is not a sum over one variable of products of two operands")
    columns = pattern.spatial[-1] if pattern.spatial else -1
    if columns < 0 or not pattern.store.is_unit(columns):
        return Declined("its columns are not contiguous in the output")
    with_columns = [term for term in pattern.terms if term.uses(columns)]
    if len(with_columns) != 1:
        return Declined("both operands depend on the column")
    (right,) = with_columns
    (left,) = (term for term in pattern.terms if term is not right)
    dim = lane_dim(right, dot)
    panel = panel_width(right, columns, dim)
    if not panel and not right.is_unit(columns, dim):
        return Declined("rows of the right operand are not contiguous")
    rows = [v for v in pattern.spatial if left.uses(v) and not right.uses(v)]
    longest = max(rows, key=lambda v: (pattern.extents[v], v), default=None)
    return Product(pattern, left, right, longest, columns, panel, dot)


def panel_width(access: StridedAccess, variable: int, dim: int = -1) -> int:
    """The width b of an access at [..., v // b, ..., v % b], v % b at `dim`; 0 if it is none."""
    *before, last = access.op.map.data.results[: dim % len(access.op.map.data.results) + 1]
    width = _divisor(last, AffineBinaryOpKind.Mod)
    if width is None or access.steps[variable] is not None:
        return 0
    panels = [each for each in before if _divisor(each, AffineBinaryOpKind.FloorDiv) == width]
    return width if any(each.used_dims() == last.used_dims() for each in panels) else 0


def _divisor(expr: object, kind: AffineBinaryOpKind) -> int | None:
    if not isinstance(expr, AffineBinaryOpExpr) or expr.kind is not kind:
        return None
    if isinstance(expr.lhs, AffineDimExpr) and isinstance(expr.rhs, AffineConstantExpr):
        return expr.rhs.value
    return None


@dataclass(frozen=True)
class Tiling:
    """Loops of a product that was tiled.

    Attributes:
        between: batches, chunks of rows and panels, outermost first.
        tiles: the tiles of a chunk; none for a single row.
        depth: the reduction.
        rows: those of a tile, if there are several.
        columns: the vectors of a tile, and their lanes.
        parts: how many parts of the reduction's depth to compute one after the other.
    """

    between: list[Loop]
    tiles: list[Loop]
    depth: Loop
    rows: list[Loop]
    columns: list[Loop]
    parts: int


def schedule_product(sch: Schedule, product: Product, facts: CpuFacts) -> None:
    """Tile a product, compute its epilogue tile by tile, and schedule what makes its inputs."""
    pattern = product.pattern
    block = sch.get_block(pattern.block.block_name.data)
    epilogue = take_epilogue(sch, block)
    others = blocks_beside(sch, block, epilogue)
    lanes = facts.lanes(element_bits(pattern.block))
    tiling = _tile(sch, block, product, facts, lanes)
    if tiling.parts > 1:
        _schedule_in_parts(sch, block, epilogue, product, tiling, facts)
    else:
        reduce, terms = _split_depth(sch, tiling.depth, product.depth, product)
        inner = [*tiling.rows, *tiling.columns, *terms]
        sch.reorder(*tiling.between, *tiling.tiles, *reduce, *inner)
        outer = parallelize(sch, tiling.between, 2 * pattern.work, facts)
        tiles = prod(map(sch.extent, tiling.tiles))
        if outer and tiles >= COPY_TILES and _has_conflicts(product, facts):
            _copy_columns(sch, block, product, outer[-1], lanes)
        _accumulate(sch, block, [*outer, *tiling.tiles], reduce, epilogue, lanes, product.dot)
        if outer:
            _prefetch_panels(sch, block, product, tiling, (outer[-1], reduce[0]), facts)
    for each in others:
        schedule_injective(sch, each, facts)


def _schedule_in_parts(
    sch: Schedule,
    block: Block,
    epilogue: Block,
    product: Product,
    tiling: Tiling,
    facts: CpuFacts,
) -> None:
    """Give all tiles of a chunk a part of the reduction's depth after the other.

    Only that part of a panel has to stay in cache. Each leaves a partial result, and rows of
    these are added up when all are there.
    """
    lanes = facts.lanes(element_bits(product.pattern.block))
    part, depth = sch.split(tiling.depth, factors=[tiling.parts, None])
    reduce, terms = _split_depth(sch, depth, product.depth // tiling.parts, product)
    inner = [*tiling.rows, *tiling.columns, *terms]
    sch.reorder(*tiling.between, part, *tiling.tiles, *reduce, *inner)
    outer = parallelize(sch, tiling.between, 2 * product.pattern.work, facts)
    columns = [loop for loop in tiling.columns if sch.extent(loop) > 1]
    partial = sch.rfactor(part)
    store = sch.cache_write(partial, "register")
    around = [*outer, part, *tiling.tiles]
    _accumulate(sch, partial, around, reduce, store, lanes, product.dot)
    _prefetch_panels(sch, partial, product, tiling, (part, reduce[0]), facts)
    # Loops of one iteration move nothing, and have no counterpart in the sum of the parts.
    *loops, part = sch.get_loops(block)[len(outer) :]
    rows, columns = loops[: -len(columns)], loops[-len(columns) :]
    sch.reorder(*rows, part, *columns)
    _accumulate(sch, block, [*outer, *rows], [part], epilogue, lanes)


def _split_depth(
    sch: Schedule, loop: Loop, depth: int, product: Product
) -> tuple[list[Loop], list[Loop]]:
    """The loop over steps, that over those of one round, and that over the terms of a dot."""
    group = product.group
    steps = sch.knob("steps", STEPS, default=_steps(depth // group, whole=group > 1))
    if group == 1:
        return sch.split(loop, factors=[None, steps]), []
    *reduce, terms = sch.split(loop, factors=[None, steps, group])
    return reduce, [terms]


def _accumulate(
    sch: Schedule,
    block: Block,
    outer: Sequence[Loop],
    reduce: Sequence[Loop],
    epilogue: Block,
    lanes: int,
    dot: Dot | None = None,
) -> None:
    """Keep a block's results in registers through a reduction; the loops inside are a tile's."""
    init = sch.decompose_reduction(block, reduce[0])
    if dot is not None:
        sch.tensorize(block, dot.name)
    sch.set_scope(block, "register")
    for step in reduce[1:]:
        sch.unroll(step)
    for each in (block, init):
        own = [loop for loop in sch.get_loops(each) if loop not in (*outer, *reduce)]
        sch.vectorize(own[-1])
        for loop in own[:-1]:
            sch.unroll(loop)
    attach_epilogue(sch, epilogue, outer, lanes)


def _has_conflicts(product: Product, facts: CpuFacts) -> bool:
    """Whether rows of the right operand, as far as a tile reads them, push one another out of
    the first cache: they lie a multiple of a large power of two apart, and share few sets."""
    distance = step_bytes(product.right, product.pattern.reduce[0])
    if product.panel or not distance:
        return False
    places = facts.l1 // max(distance & -distance, ALIGNMENT)
    return 2 * product.depth > places


def _copy_columns(sch: Schedule, block: Block, product: Product, at: Loop, lanes: int) -> None:
    """Copy what a tile reads of the right operand to where rows follow one another."""
    place = buffers_read(sch.block_op(block)).index(product.right.buffer)
    copy = sch.cache_read(block, place, "local")
    sch.compute_at(copy, at)
    *_, column = sch.get_loops(copy)
    if sch.extent(column) > lanes:
        vector, column = sch.split(column, factors=[None, lanes])
        sch.unroll(vector)
    sch.vectorize(column)


def _prefetch_panels(
    sch: Schedule,
    block: Block,
    product: Product,
    tiling: Tiling,
    loops: tuple[Loop, Loop],
    facts: CpuFacts,
) -> None:
    """While tiles pass over a panel, bring the next one near.

    Without that the first tile on each waits for memory at every step. A single tile has no
    time to spare: it reads as fast as memory gives.

    Args:
        loops: that whose iterations have a panel each, and that over steps of the depth.
    """
    buffer = product.right.buffer
    size = prod(buffer_shape(buffer)) * access_bytes(product.right)
    tiles = prod(map(sch.extent, tiling.tiles))
    if product.panel and product.dot is None and size > facts.l2 and tiles > 1:
        place = buffers_read(sch.block_op(block)).index(buffer)
        sch.prefetch(block, place, *loops)


def _tile(sch: Schedule, block: Block, product: Product, facts: CpuFacts, lanes: int) -> Tiling:
    """Split the loops of rows and columns."""
    pattern = product.pattern
    loops = variable_loops(sch, block)
    height = 1 if product.rows is None else pattern.extents[product.rows]
    width = pattern.extents[product.columns]
    given = (product.panel or _whole_rows(height, product, lanes, facts)) // lanes or None
    best = best_tile(height, width, lanes, facts.registers, given)
    rows = sch.knob("rows", _row_choices(height, best, width, lanes), default=best.rows)
    choices = [1, 2, 3, 4] if given is None else [given]
    vectors = sch.knob("vectors", choices, default=best.vectors)
    depth = loops.pop(pattern.reduce[0])
    parts = sch.knob("parts", *_parts(height, rows, vectors * lanes, product, facts))
    row_loop = None if product.rows is None else loops.pop(product.rows, None)
    depth_in_cache = product.depth // parts
    others = prod(pattern.extents[v] for v in loops if v in pattern.spatial)
    others = others // width * ceil(width / (vectors * lanes))
    row_bytes = depth_in_cache * access_bytes(product.left)
    chunks, tiles, row = _split_rows(sch, row_loop, rows, row_bytes, others, facts)
    panels, column = _split_columns(sch, loops.pop(product.columns, None), vectors, lanes)
    streams = _streams(height, product, lanes, facts)
    if streams > 1:
        *panels, part = sch.split(*panels, factors=[None, streams])
        column.insert(0, part)
    batch = [loops[v] for v in pattern.spatial if v in loops]
    return Tiling([*batch, *chunks, *panels], tiles, depth, row, column, parts)


def _whole_rows(height: int, product: Product, lanes: int, facts: CpuFacts) -> int:
    """Columns of a tile that reads all of the right operand in the order of memory; 0 if its
    rows are too long, or need to be divided among threads.

    A single row is done as fast as that comes.
    """
    extents = product.pattern.extents
    width = extents[product.columns]
    batch = prod(extents[v] for v in product.pattern.spatial) // width
    if height > 1 or product.dot is not None or batch < MIN_TASKS * facts.cores:
        return 0
    return width if width % lanes == 0 and width // lanes <= facts.registers - 2 else 0


def _streams(height: int, product: Product, lanes: int, facts: CpuFacts) -> int:
    """Panels in a tile: several for a single row, which is done as fast as they come."""
    if height > 1 or not product.panel or product.dot is not None:
        return 1
    panels = ceil(product.pattern.extents[product.columns] / product.panel)
    in_registers = (facts.registers - 2) // (product.panel // lanes)
    most = min(MAX_STREAMS, in_registers, panels // (MIN_TASKS * facts.cores))
    return max((n for n in range(1, most + 1) if panels % n == 0), default=1)


def _parts(
    height: int, rows: int, width: int, product: Product, facts: CpuFacts
) -> tuple[list[int], int]:
    """Parts of the reduction's depth: candidates, and as many as it takes for a panel to
    fit its share of the cache, where several tiles of rows pass over it."""
    if height < MIN_TILES * rows:
        return [1], 1
    whole = [n for n in range(1, MAX_PARTS + 1) if product.depth % (n * product.group) == 0]
    panel = product.depth * width * access_bytes(product.right)
    wanted = panel / (facts.l2 / PANEL_SHARE)
    return whole, next((n for n in whole if n >= wanted), 1)


def _split_rows(
    sch: Schedule, loop: Loop | None, rows: int, row_bytes: int, tasks: int, facts: CpuFacts
) -> tuple[list[Loop], list[Loop], list[Loop]]:
    """Chunks of rows, tiles, and the rows of a tile; a single row has no loop."""
    if loop is None:
        return [], [], []
    tiles = ceil(sch.extent(loop) / rows)
    chunk = sch.knob("chunk", *_chunks(tiles, rows * row_bytes, tasks, facts))
    chunks, between, row = sch.split(loop, factors=[None, chunk, rows])
    return [chunks], [between], [row]


def _chunks(tiles: int, size: int, tasks: int, facts: CpuFacts) -> tuple[list[int], int]:
    """Tiles of rows in a chunk: candidates, and the choice.

    Few chunks, so that a panel is read few times; but enough for all threads, and small
    enough for the left operand's rows to stay near. Chunks of equal size where that is
    possible.

    Args:
        tiles: tiles of rows in all.
        size: bytes of the left operand that a tile reads.
        tasks: what may run at the same time beside chunks of rows.
    """
    tasks = max(tasks, 1)
    fit = max(NEAR * facts.l2 // max(size, 1), MIN_TILES)
    wanted = min(max(ceil(tiles / fit), ceil(MIN_TASKS * facts.cores / tasks)), tiles)
    even = next(n for n in range(wanted, tiles + 1) if tiles % n == 0)
    chosen = ceil(tiles / (even if even <= 2 * wanted or tasks < facts.cores else wanted))
    return sorted({ceil(tiles / n) for n in (1, 2, 4, 8, 16)} | {chosen}), chosen


def _steps(depth: int, whole: bool) -> int:
    """Steps of the reduction in one round of its loop.

    Args:
        whole: all rounds have to be whole; else the last one of many may be shorter.
    """
    most = max(STEPS)
    if depth >= MIN_ROUNDS * most and not whole:
        return most
    return max(n for n in STEPS if depth % n == 0)


def _split_columns(
    sch: Schedule, loop: Loop | None, vectors: int, lanes: int
) -> tuple[list[Loop], list[Loop]]:
    """Panels of columns; the vectors of a panel and their lanes."""
    if loop is None:
        return [], []
    if sch.extent(loop) <= lanes:
        return [], [loop]
    panels, vector, lane = sch.split(loop, factors=[None, vectors, lanes])
    return [panels], [vector, lane]


def _row_choices(height: int, best: MatmulTile, width: int, lanes: int) -> list[int]:
    """Numbers of rows worth trying: the chosen one, and those that cost little more."""
    limit = 1.25 * tile_cost(height, width, lanes, best)
    found = [
        rows
        for rows in range(1, min(height, MAX_ROWS) + 1)
        if tile_cost(height, width, lanes, MatmulTile(rows, best.vectors)) <= limit
    ]
    return sorted({*found, best.rows})
