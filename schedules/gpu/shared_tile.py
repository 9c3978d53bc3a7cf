"""Contractions through memory that the threads of a block share.

    each block                                  rows x spans x columns of the output
      sums = 0                                  a tile of them in each thread's registers
      for each part of the reduction
        all threads: copy what the block needs of both operands      shared
        for each term of the part
          each thread: multiply-add its tile
      epilogue and store

An element of an operand is fetched once for the block, by any of its threads, instead of once
for each thread that needs it. *Columns* are contiguous in the output; *spans* are a second
variable that moves the same operand, such as the height of an image; *rows* move the other operand
alone. An operand that is computed, such as a padded image, is computed where it is copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.api import Schedule
from tcopt.schedules.epilogue import take_epilogue
from tcopt.schedules.gpu.facts import LIKELY_THREADS, GpuFacts
from tcopt.schedules.gpu.injective import schedule_injective
from tcopt.schedules.gpu.register_tile import (
    column_lanes,
    columns_of,
    finish,
    only_contraction,
    rows_of,
    unroll_steps,
    write_out_tile,
)
from tcopt.schedules.gpu.threads import share_work
from tcopt.schedules.handles import Block, Loop
from tcopt.schedules.nests import variable_loops
from tcopt.schedules.patterns import (
    Access,
    BlockPattern,
    access_bits,
    element_bits,
    match_block,
)
from tcopt.schedules.rules import Declined, schedule_rule
from tcopt.schedules.state import buffers_read
from tcopt.support.remarks import remark

LEAST_DEPTH = 8
"""Terms of a sum from which on it is worth waiting for the other threads."""

FETCH = 8.0
"""Multiply-adds that take as long as moving one element to shared memory, roughly."""

WAIT = 64.0
"""The same for waiting until all threads are there."""

STEPS = (4, 8, 16, 32)
"""Steps along the longest reduce variable that are fetched at a time."""


@dataclass(frozen=True)
class Roles:
    """Which variable plays which part, by position.

    Attributes:
        rows, columns: as in `register_tile`.
        spans: a second variable that moves what columns move; None if there is none.
        depth: the longest variable of the reduction.
    """

    rows: int
    columns: int
    spans: int | None
    depth: int


@dataclass(frozen=True)
class SharedTile:
    """What a block computes.

    Attributes:
        rows, columns: of one thread; `spans` of them lie in the second direction.
        lanes: of a vector; they divide `columns`.
        down, across: threads along rows and along columns.
        steps: along the longest reduce variable that are fetched at a time.
    """

    rows: int
    spans: int
    columns: int
    lanes: int
    down: int
    across: int
    steps: int

    @property
    def threads(self) -> int:
        return self.down * self.across

    @property
    def sums(self) -> int:
        return self.rows * self.spans * self.columns

    def __str__(self) -> str:
        return (
            f"{self.rows * self.down} x {self.spans} x {self.columns * self.across} a block of "
            f"{self.down} x {self.across} threads, {self.steps} steps at a time"
        )


@schedule_rule(target="gpu", priority=100)
class SharedTiles:
    """Rule for a sum of products in which several threads use each element."""

    name = "gpu-shared-tile"

    def apply(self, sch: Schedule, facts: GpuFacts) -> Declined | None:
        if not facts.shared:
            return Declined("shared memory is no nearer than other memory", quiet=True)
        pattern = only_contraction(sch)
        if isinstance(pattern, Declined):
            return pattern
        roles = find_roles(pattern)
        if isinstance(roles, Declined):
            return roles
        tile = choose_tile(pattern, roles, facts)
        if tile is None:
            return Declined("no tile fits shared memory and threads")
        schedule_tile(sch, pattern, roles, tile, facts)
        return None


def find_roles(pattern: BlockPattern) -> Roles | Declined:
    """Assign the parts, or say why nothing is gained by sharing."""
    columns = columns_of(pattern)
    if columns is None:
        return Declined("no variable is contiguous in the output")
    rows = rows_of(pattern, columns)
    if rows is None or not any(not t.uses(rows) for t in pattern.terms):
        return Declined("no operand serves several rows")
    if any(steps is None for term in pattern.terms for steps in term.steps):
        return Declined("an operand is not read at linear indices")
    if prod(pattern.extents[v] for v in pattern.reduce) < LEAST_DEPTH:
        return Declined("a sum has too few terms to wait for other threads")
    along = [t for t in pattern.terms if t.uses(columns)]
    across = [t for t in pattern.terms if not t.uses(columns)]
    spans = [
        v
        for v in pattern.spatial
        if v != columns
        and pattern.extents[v] > 1
        and all(t.uses(v) for t in along)
        and not any(t.uses(v) for t in across)
    ]
    depth = max(pattern.reduce, key=lambda v: (pattern.extents[v], -v))
    return Roles(rows, columns, spans[-1] if spans else None, depth)


def choose_tile(pattern: BlockPattern, roles: Roles, facts: GpuFacts) -> SharedTile | None:
    """The tile of the least estimated time; ties go to more sums, then to more threads."""
    return min(
        candidate_tiles(pattern, roles, facts),
        key=lambda t: (cost(t, pattern, roles, facts), -t.sums, -t.threads),
        default=None,
    )


def candidate_tiles(pattern: BlockPattern, roles: Roles, facts: GpuFacts) -> Iterator[SharedTile]:
    """Tiles whose sums fit the registers and whose operands fit shared memory."""
    lanes = column_lanes(pattern, roles.columns, facts)
    width, height = pattern.extents[roles.columns], pattern.extents[roles.rows]
    depth = pattern.extents[roles.depth]
    most = min(facts.max_threads, LIKELY_THREADS)
    spans = [1] if roles.spans is None else _sizes(pattern.extents[roles.spans], (1, 2, 4, 7))
    steps = [depth] if depth <= min(STEPS) else _sizes(depth, STEPS)
    for columns in sorted({lanes, 2 * lanes if lanes > 1 else 1}):
        for across in _sizes(ceil(width / columns), (4, 7, 8, 14, 16, 28, 32)):
            for rows in _sizes(height, (1, 2, 4, 8)):
                for down in _sizes(ceil(height / rows), (1, 2, 4, 8, 16, 32)):
                    for span in spans:
                        if down * across > most or rows * span * columns > facts.accumulators:
                            continue
                        for step in steps:
                            tile = SharedTile(rows, span, columns, lanes, down, across, step)
                            if _shared_bytes(tile, pattern, roles) <= facts.shared:
                                yield tile


def _sizes(extent: int, wanted: tuple[int, ...]) -> list[int]:
    """Those of some sizes that are not larger than an extent; the extent if it is smaller."""
    return [size for size in wanted if size <= extent] or [extent]


def tile_extents(tile: SharedTile, pattern: BlockPattern, roles: Roles) -> list[int]:
    """How far a block goes along each variable before the next part of the reduction."""
    sizes = [extent if v in pattern.reduce else 1 for v, extent in enumerate(pattern.extents)]
    sizes[roles.rows] = tile.rows * tile.down
    sizes[roles.columns] = tile.columns * tile.across
    sizes[roles.depth] = tile.steps
    if roles.spans is not None:
        sizes[roles.spans] = tile.spans
    return sizes


def fetched(term: Access, sizes: list[int]) -> int:
    """Elements of the box that a block reads of an operand."""
    total = 1
    for dim, extent in enumerate(buffer_shape(term.buffer)):
        reach = 1
        for steps, size in zip(term.steps, sizes, strict=True):
            assert steps is not None
            reach += abs(steps[dim]) * (size - 1)
        total *= min(reach, extent)
    return total


def _shared_bytes(tile: SharedTile, pattern: BlockPattern, roles: Roles) -> int:
    sizes = tile_extents(tile, pattern, roles)
    # The last round of fetching may leave some threads with places of their own.
    elements = sum(fetched(t, sizes) + tile.threads for t in pattern.terms)
    return elements * element_bits(pattern.block) // 8


def cost(tile: SharedTile, pattern: BlockPattern, roles: Roles, facts: GpuFacts) -> float:
    """Multiply-adds that take as long, of one core."""
    sizes = tile_extents(tile, pattern, roles)
    blocks = prod(ceil(pattern.extents[v] / sizes[v]) for v in pattern.spatial)
    parts = ceil(pattern.extents[roles.depth] / tile.steps)
    terms = prod(sizes[v] for v in pattern.reduce)
    loads = tile.rows + tile.spans * tile.columns / tile.lanes
    fetches = sum(fetched(term, sizes) for term in pattern.terms)
    # A block whose threads are no whole warps pays for those that idle.
    threads = ceil(tile.threads / facts.warp) * facts.warp
    work = threads * (terms * (tile.sums + loads) + WAIT) + FETCH * fetches
    # Few threads do not hide how long memory takes.
    exposed = 1 + 2 * facts.warp / threads
    return max(blocks / facts.cores, 1.0) * parts * work * exposed


def schedule_tile(
    sch: Schedule, pattern: BlockPattern, roles: Roles, tile: SharedTile, facts: GpuFacts
) -> None:
    """Tile the block for blocks and threads, with its operands shared."""
    block = sch.get_block(pattern.block.block_name.data)
    remark("schedule", sch.block_op(block), f"tile of {tile}, operands in shared memory")
    producers = sch.producers(block)
    epilogue = take_epilogue(sch, block)
    loops = variable_loops(sch, block)
    steps = sch.knob("steps", sorted({*STEPS, tile.steps}), default=tile.steps)
    row_block, row_thread, row = sch.split(loops.pop(roles.rows), [None, tile.down, tile.rows])
    factors = [None, tile.across, tile.columns // tile.lanes, tile.lanes]
    column_block, column_thread, vector, lane = sch.split(loops.pop(roles.columns), factors)
    blocks, inner = [column_block], [row]
    if roles.spans is not None and roles.spans in loops:
        span_block, span = sch.split(loops.pop(roles.spans), [None, tile.spans])
        blocks.insert(0, span_block)
        inner.append(span)
    part, step = sch.split(loops.pop(roles.depth), [None, steps])
    reduce = [step, *(loops[v] for v in pattern.reduce if v in loops)]
    others = [loops[v] for v in pattern.spatial if v in loops]
    threads = [row_thread, column_thread]
    sch.reorder(*others, row_block, *blocks, *threads, part, *reduce, *inner, vector, lane)
    _bind(sch, others, "blockIdx.z")
    _bind(sch, [row_block], "blockIdx.y")
    _bind(sch, blocks, "blockIdx.x")
    sch.bind(row_thread, "threadIdx.y")
    sch.bind(column_thread, "threadIdx.x")
    left = _share_operands(sch, block, pattern, producers, part, tile, facts)
    unroll_steps(sch, reduce, tile.sums)
    init = sch.decompose_reduction(block, part)
    sch.set_scope(block, "register")
    for each in (init, block):
        write_out_tile(sch, each, column_thread, tile.lanes)
    finish(sch, epilogue, column_thread, tile.lanes)
    for producer in left:
        schedule_injective(sch, producer, facts)


def _bind(sch: Schedule, loops: list[Loop], axis: str) -> None:
    if loops:
        sch.bind(sch.fuse(*loops) if len(loops) > 1 else loops[0], axis)


def _share_operands(
    sch: Schedule,
    block: Block,
    pattern: BlockPattern,
    producers: list[Block],
    part: Loop,
    tile: SharedTile,
    facts: GpuFacts,
) -> list[Block]:
    """Let all threads of a block fetch what it needs for a part of the reduction.

    Returns:
        The producers that are left to launches of their own.
    """
    left = list(producers)
    for term in pattern.terms:
        made = next((p for p in left if _makes(sch, p, term, block)), None)
        if made is None:
            place = buffers_read(sch.block_op(block)).index(term.buffer)
            copy = sch.cache_read(block, place, "shared")
        else:
            left.remove(made)
            copy = made
            sch.set_scope(copy, "shared")
        sch.compute_at(copy, part)
        loops = sch.get_loops(copy)
        loops = loops[loops.index(part) + 1 :]
        lanes = 1
        if made is None and loops:
            lanes = _copied_lanes(sch, term, loops, tile, facts)
        share_work(sch, loops, (tile.down, tile.across), lanes)
    return left


def _copied_lanes(
    sch: Schedule, term: Access, loops: list[Loop], tile: SharedTile, facts: GpuFacts
) -> int:
    """Neighbours that a thread copies at once: whole vectors of rows that blocks divide evenly,
    where there are enough of them for all threads."""
    lanes = facts.lanes(access_bits(term))
    width, row = sch.extent(loops[-1]), buffer_shape(term.buffer)[-1]
    elements = prod(map(sch.extent, loops))
    is_even = width % lanes == 0 and row % width == 0
    return lanes if is_even and elements >= lanes * tile.threads else 1


def _makes(sch: Schedule, producer: Block, term: Access, block: Block) -> bool:
    """Whether a block computes an operand for this one alone, element by element and cheaply."""
    source = match_block(sch.block_op(producer))
    if source is None or source.block.is_reduction or source.store.buffer is not term.buffer:
        return False
    return sch.consumers(producer) == [block] and not sch.producers(producer)
