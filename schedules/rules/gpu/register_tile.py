"""Contractions with operands in memory: each thread keeps a tile of sums in registers.

    each thread
      sums = 0                             rows x lanes
      for each term of the reduction
        for each row:  load one element
        load a vector
        for each row:  multiply-add
      epilogue and store, a vector a row

*Columns* are contiguous in the output: vectors run along them, and adjacent threads take adjacent
vectors. *Rows* are a variable that moves only the other operand, so that a loaded vector is used
for all of them: output channels of a convolution, rows of a matrix product. Operands are not copied
to shared memory: on GPUs that share memory with the CPU that costs more than it saves, and without
reuse there is nothing to save.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.schedules.analysis.dots import Dot, dot_of, lane_dim
from tcopt.schedules.analysis.patterns import BlockPattern, element_bits, match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import blocks_beside, stores_neighbours, take_epilogue
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.threads import spread, write_out
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.spatial import is_spatial
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Knob,
    LoopLevel,
    NestKind,
    Operand,
    Point,
    Space,
)
from tcopt.support.arithmetic.columns import ceil_div, least, where
from tcopt.support.machines.thread_blocks import LaunchWork, ThreadBlocks
from tcopt.support.remarks import remark

MOST_ROWS = 8
"""Maximum number of rows of a tile in the default schedule."""

WRITTEN_OUT = 128
"""Number of unrolled multiply-adds that make loop overhead negligible."""

WRITTEN_CHOICES = (16, 32, 64, 128, 256)
"""Candidate numbers of unrolled multiply-adds."""

MOST_STEPS = 16
"""Maximum number of unrolled steps of a reduction, however few multiply-adds each has."""

BROADCAST = 0.5
"""Cost of a load in vector multiply-adds, if threads are loops of a CPU."""

FEW_ROWS = 2
SINGLE = 2.0
"""Slowdown of scalar code with more rows than `FEW_ROWS` on such targets: with few rows, the
compiler vectorises over adjacent threads."""

UNEVEN = 1.5
"""Slowdown on such targets if the last tile has fewer rows, which need separate conditions."""


@dataclass(frozen=True)
class RegisterTile:
    """The sums of one thread; sizes are integers, or NumPy arrays for many tiles.

    Attributes:
        rows: number of rows.
        lanes: elements of a row.
    """

    rows: Column
    lanes: Column


@schedule_rule(target="gpu", priority=80)
class RegisterTiles:
    """Rule for functions with one block that sums products."""

    name = "gpu-register-tile"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: ThreadBlocks) -> RegisterTileSpace | Declined:
        pattern = only_contraction(sch)
        if isinstance(pattern, Declined):
            return pattern
        return open_tiles(pattern, facts)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: RegisterTileSpace, choice: Choice
    ) -> Declined | None:
        tile, written = RegisterTile(choice["rows"], choice["lanes"]), choice["written"]
        parts = space.pattern, space.rows, space.columns
        for each in schedule_tile(sch, *parts, tile, facts, space.dot, written):
            schedule_injective(sch, each, facts)
        return None


class RegisterTileSpace(Space):
    """Tile of a thread, and how much of its sum is unrolled."""

    def __init__(self, pattern: BlockPattern, rows: int | None, columns: int, facts: ThreadBlocks):
        self.pattern, self.rows, self.columns, self.facts = pattern, rows, columns, facts
        self.dot = dot_of(pattern, facts.capabilities)
        lanes = column_lanes(pattern, columns, facts, self.dot)
        highest = 1 if rows is None else min(pattern.extents[rows], 2 * MOST_ROWS)
        super().__init__(
            [
                Knob("rows", tuple(range(1, highest + 1))),
                Knob("lanes", tuple(sorted({1, lanes}))),
                Knob("written", WRITTEN_CHOICES),
            ]
        )

    @property
    def leading(self) -> tuple[str, ...]:
        return ("rows", "lanes")

    def valid(self, k: Point) -> Column:
        return k.rows * k.lanes <= self.facts.accumulators

    def usual(self, k: Point) -> Column:
        return (k.rows <= MOST_ROWS) & self.valid(k)

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of the launch."""
        tile = RegisterTile(k.rows, k.lanes)
        return _cycles(tile, self.pattern, self.rows, self.columns, self.facts)

    def ties(self, k: Point) -> Sequence[Column]:
        return (-k.rows * k.lanes,)

    def complete(self, leading: Choice) -> dict[str, int]:
        return dict(leading) | {"written": self._written(leading["rows"] * leading["lanes"])}

    def _written(self, sums: int) -> int:
        """Return the number of multiply-adds to unroll; on a CPU, a whole window or nothing."""
        if self.facts.in_lockstep:
            return WRITTEN_OUT
        steps = 1
        for v in reversed(self.pattern.reduce):
            if steps * self.pattern.extents[v] > MOST_STEPS:
                break
            steps *= self.pattern.extents[v]
        enough = [n for n in WRITTEN_CHOICES if n >= steps * sums]
        return enough[0] if enough else WRITTEN_CHOICES[0]

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        pattern, sizes = self.pattern, {self.rows: k.rows, self.columns: k.lanes}
        levels = [
            LoopLevel(v, ceil_div(pattern.extents[v], sizes.get(v, 1)), NestKind.THREAD)
            for v in pattern.spatial
        ]
        levels += [LoopLevel(v, pattern.extents[v]) for v in pattern.reduce]
        if self.rows is not None:
            levels.append(LoopLevel(self.rows, k.rows, NestKind.UNROLLED))
        return [*levels, LoopLevel(self.columns, k.lanes, NestKind.VECTOR)]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)


def open_tiles(pattern: BlockPattern, facts: ThreadBlocks) -> RegisterTileSpace | Declined:
    """Return the space of tiles of a contraction with operands in memory, or decline."""
    columns = columns_of(pattern)
    if columns is None:
        return Declined("no variable is contiguous in the output")
    return RegisterTileSpace(pattern, rows_of(pattern, columns), columns, facts)


def only_contraction(sch: Schedule) -> BlockPattern | Declined:
    """Return the only contraction of a function if no other block reduces; decline otherwise."""
    patterns = [match_block(sch.block_op(block)) for block in sch.blocks()]
    sums = [p for p in patterns if p is not None and p.is_contraction]
    if len(sums) != 1:
        return Declined(f"{len(sums)} blocks add products of two loaded values, one is wanted")
    if len(sums[0].terms) != 2:
        return Declined(f"the products are of {len(sums[0].terms)} operands")
    others = [p for p in patterns if p is None or p.block.is_reduction]
    if len(others) > 1:
        return Declined("another block reduces too")
    return sums[0]


def columns_of(pattern: BlockPattern) -> int | None:
    """Return the variable that is contiguous in the output."""
    found = [v for v in pattern.spatial if pattern.extents[v] > 1 and pattern.store.is_unit(v)]
    return found[-1] if found else None


def rows_of(pattern: BlockPattern, columns: int, lane: int | None = None) -> int | None:
    """Return the longest variable that moves one operand, but not the one that columns move.

    Args:
        lane: a variable that has another role.
    """
    along = [t for t in pattern.terms if t.uses(columns)]
    across = [t for t in pattern.terms if not t.uses(columns)]
    found = [
        v
        for v in pattern.spatial
        if v not in (columns, lane)
        and not any(t.uses(v) for t in along)
        and any(t.uses(v) for t in across)
        and pattern.extents[v] > 1
    ]
    return max(found, key=lambda v: (pattern.extents[v], v), default=None)


def column_lanes(
    pattern: BlockPattern, columns: int, facts: ThreadBlocks, dot: Dot | None = None
) -> int:
    """Return the lanes of a vector along columns.

    Rows are whole vectors. Threads in lockstep need contiguous operands: otherwise adjacent threads
    take adjacent elements.
    """
    lanes = facts.lanes(element_bits(pattern.block), pattern.extents[columns])
    plain = all(not t.uses(columns) or t.is_unit(columns, lane_dim(t, dot)) for t in pattern.terms)
    return lanes if plain or not facts.in_lockstep else 1


def _cycles(
    tile: RegisterTile, pattern: BlockPattern, rows: int | None, columns: int, facts: ThreadBlocks
) -> Column:
    """Estimate the cycles of a launch with a tile for each thread."""
    sizes = {rows: tile.rows, columns: tile.lanes}
    threads: Column = 1
    for v in pattern.spatial:
        threads = threads * ceil_div(pattern.extents[v], sizes.get(v, 1))
    uneven: Column = 1.0
    if rows is not None:
        uneven = where(pattern.extents[rows] % tile.rows == 0, 1.0, UNEVEN)
    uneven = uneven * prod(pattern.extents[v] for v in pattern.reduce)
    operations, loads = tile.rows * tile.lanes, tile.rows + 1
    if not facts.in_lockstep:
        operations, loads = facts.words * _thread_operations(tile, pattern, columns), 0
    work = LaunchWork(
        blocks=ceil_div(threads, facts.usual_threads),
        threads=least(threads, facts.usual_threads),
        operations=uneven * operations,
        loads=uneven * loads,
    )
    return facts.launch(work).total


def _thread_operations(tile: RegisterTile, pattern: BlockPattern, columns: int) -> Column:
    """Return the vector operations for one term if threads are loops of a CPU.

    Vectors that are not contiguous are gathered by element.
    """
    gathered = any(t.uses(columns) and not t.is_unit(columns) for t in pattern.terms)
    loads = tile.rows + (tile.lanes if gathered else 1)
    single = where((tile.lanes == 1) & (tile.rows > FEW_ROWS), SINGLE, 1.0)
    return single * (tile.rows + BROADCAST * loads)


def schedule_tile(
    sch: Schedule,
    pattern: BlockPattern,
    rows: int | None,
    columns: int,
    tile: RegisterTile,
    facts: ThreadBlocks,
    dot: Dot | None = None,
    written: int = WRITTEN_OUT,
) -> list[Block]:
    """Tile the block, and compute its epilogue tile by tile; return the other blocks."""
    block = sch.get_block(pattern.block.block_name.data)
    text = f"tile of {tile.rows} rows x {tile.lanes} columns a thread, from memory"
    remark("schedule", sch.block_op(block), text)
    epilogue = take_epilogue(sch, block)
    beside = blocks_beside(sch, block, epilogue)
    height = tile.rows
    loops = variable_loops(sch, block)
    inner: list[Loop] = []
    for variable, size in ((rows, height), (columns, tile.lanes)):
        if variable is not None and size > 1:
            loops[variable], part = sch.split(loops[variable], factors=[None, size])
            inner.append(part)
    if dot is not None:
        loops[dot.variable], terms = sch.split(loops[dot.variable], factors=[None, dot.group])
        inner.append(terms)
    outer = [loops[v] for v in pattern.spatial if v in loops]
    reduce = [loops[v] for v in pattern.reduce if v in loops]
    sums = height * tile.lanes
    sch.reorder(*outer, *reduce, *inner)
    thread = spread(sch, outer, facts)
    accumulate(sch, block, thread, reduce, sums, tile.lanes, dot, written)
    finish(sch, epilogue, thread, tile.lanes)
    return beside


def accumulate(
    sch: Schedule,
    block: Block,
    around: Loop,
    reduce: list[Loop],
    sums: int,
    lanes: int,
    dot: Dot | None = None,
    written: int = WRITTEN_OUT,
) -> None:
    """Keep a thread's sums in registers through a reduction, and unroll its last steps."""
    inner = unroll_steps(sch, reduce, sums, written)
    # A dot product needs its initialisation in a separate block.
    if inner or dot is not None:
        init = sch.decompose_reduction(block, (inner or reduce)[0])
        write_out_tile(sch, init, around, lanes)
    if dot is not None:
        sch.tensorize(block, dot.name)
    sch.set_scope(block, "register")
    write_out_tile(sch, block, around, lanes)


def unroll_steps(
    sch: Schedule, reduce: list[Loop], sums: int, written: int = WRITTEN_OUT
) -> list[Loop]:
    """Unroll the last steps of a reduction for a thread with `sums` sums.

    Args:
        written: number of multiply-adds to unroll.
    Returns:
        The remaining loops, outermost first.
    """
    left = min(MOST_STEPS, max(written // sums, 1))
    inner = list(reduce)
    while inner and sch.extent(inner[-1]) <= left:
        left //= sch.extent(inner[-1])
        sch.unroll(inner.pop())
    if inner:
        steps = max(n for n in (1, 2, 4, 8) if n <= left and sch.extent(inner[-1]) % n == 0)
        if steps > 1:
            inner[-1], step = sch.split(inner[-1], factors=[None, steps])
            sch.unroll(step)
    return inner


def write_out_tile(sch: Schedule, block: Block, around: Loop, lanes: int) -> None:
    """Unroll and vectorise the loops over a thread's tile."""
    loops, op = sch.get_loops(block), sch.block_op(block)
    own = [o for o in loops[loops.index(around) + 1 :] if is_spatial(sch, o, op)]
    own = [o for o in own if sch.extent(o) > 1]
    if own:
        write_out(sch, own, lanes)


def finish(sch: Schedule, epilogue: Block, thread: Loop, lanes: int) -> None:
    """Compute an epilogue in the thread that has its sums."""
    if not stores_neighbours(sch, epilogue, lanes):
        lanes = 1
    sch.reverse_compute_at(epilogue, thread)
    loops = sch.get_loops(epilogue)
    own = loops[loops.index(thread) + 1 :]
    if own and 1 < lanes < sch.extent(own[-1]):
        own = [*own[:-1], *sch.split(own[-1], factors=[None, lanes])]
    if own:
        write_out(sch, own, lanes)
