"""Contractions straight from memory: each thread keeps a tile of sums in registers.

    each thread
      sums = 0                             rows x lanes
      for each term of the reduction
        for each row:  load one number
        load a vector
        for each row:  multiply-add
      epilogue and store, a vector a row

*Columns* are contiguous in the output: vectors lie along them, and threads next to each other
take vectors next to each other. *Rows* are a variable that moves the other operand alone, so that
a loaded vector serves all of them: output channels of a convolution, rows of a matrix product.
Nothing is copied to memory that threads share: on GPUs whose memory is the CPU's that costs more
than it saves, and where nothing is used twice there is nothing to save.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from tcopt.dialects.graph.forms import CONTRACTION
from tcopt.schedules.analysis.dots import Dot, dot_of, lane_dim
from tcopt.schedules.analysis.patterns import BlockPattern, element_bits, match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import blocks_beside, take_epilogue
from tcopt.schedules.rules.gpu.facts import GpuFacts
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.threads import spread, write_out
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.spatial import is_spatial
from tcopt.support.remarks import remark

MOST_ROWS = 8
"""Rows of a tile: what is loaded for a vector's multiply-adds beside it."""

WRITTEN_OUT = 128
"""Multiply-adds that are written out: enough that loop control does not count."""

MOST_STEPS = 16
"""Steps of a reduction that are written out, however few multiply-adds each has."""

LOAD = 4.0
"""Multiply-adds that take as long as one load, roughly."""


@dataclass(frozen=True)
class RegisterTile:
    """The sums of one thread.

    Attributes:
        rows: of them.
        lanes: of each row.
    """

    rows: int
    lanes: int


@schedule_rule(target="gpu", priority=80)
class RegisterTiles:
    """Rule for functions with a block that sums products."""

    name = "gpu-register-tile"
    provides = (CONTRACTION,)

    def apply(self, sch: Schedule, facts: GpuFacts) -> Declined | None:
        pattern = only_contraction(sch)
        if isinstance(pattern, Declined):
            return pattern
        left = tile_contraction(sch, pattern, facts)
        if isinstance(left, Declined):
            return left
        for each in left:
            schedule_injective(sch, each, facts)
        return None


def tile_contraction(
    sch: Schedule, pattern: BlockPattern, facts: GpuFacts
) -> list[Block] | Declined:
    """Tile a sum of products, its operands from memory, or say why not.

    Returns:
        The other blocks that are left to launches of their own.
    """
    columns = columns_of(pattern)
    if columns is None:
        return Declined("no variable is contiguous in the output")
    rows = rows_of(pattern, columns)
    dot = dot_of(pattern, facts.capabilities)
    tile = choose_tile(pattern, rows, columns, facts, dot)
    return schedule_tile(sch, pattern, rows, columns, tile, facts, dot)


def only_contraction(sch: Schedule) -> BlockPattern | Declined:
    """The one block that adds products, where all others compute each element on its own."""
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
    """The variable that is contiguous in the output."""
    found = [v for v in pattern.spatial if pattern.extents[v] > 1 and pattern.store.is_unit(v)]
    return found[-1] if found else None


def rows_of(pattern: BlockPattern, columns: int, lane: int | None = None) -> int | None:
    """The longest variable that moves an operand and leaves what lies along columns.

    Args:
        lane: a variable that has another part already.
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
    pattern: BlockPattern, columns: int, facts: GpuFacts, dot: Dot | None = None
) -> int:
    """Lanes of a vector along columns: whole ones only, of neighbours."""
    lanes = facts.lanes(element_bits(pattern.block), pattern.extents[columns])
    plain = all(not t.uses(columns) or t.is_unit(columns, lane_dim(t, dot)) for t in pattern.terms)
    return lanes if plain else 1


def choose_tile(
    pattern: BlockPattern, rows: int | None, columns: int, facts: GpuFacts, dot: Dot | None = None
) -> RegisterTile:
    """The tile of the least work for the threads that run at once; ties go to the larger one."""
    lanes = column_lanes(pattern, columns, facts, dot)
    most = 1 if rows is None else min(pattern.extents[rows], MOST_ROWS)
    tiles = [
        RegisterTile(height, width)
        for height in range(1, most + 1)
        for width in {1, lanes}
        if height * width <= facts.accumulators
    ]
    return min(tiles, key=lambda t: (_cost(t, pattern, rows, columns, facts), -t.rows * t.lanes))


def _cost(
    tile: RegisterTile, pattern: BlockPattern, rows: int | None, columns: int, facts: GpuFacts
) -> float:
    sizes = {rows: tile.rows, columns: tile.lanes}
    threads = prod(ceil(pattern.extents[v] / sizes.get(v, 1)) for v in pattern.spatial)
    waves = ceil(threads / facts.running)
    return waves * (tile.rows * tile.lanes + LOAD * (tile.rows + 1))


def schedule_tile(
    sch: Schedule,
    pattern: BlockPattern,
    rows: int | None,
    columns: int,
    tile: RegisterTile,
    facts: GpuFacts,
    dot: Dot | None = None,
) -> list[Block]:
    """Tile the block, and compute its epilogue tile by tile; the other blocks."""
    block = sch.get_block(pattern.block.block_name.data)
    text = f"tile of {tile.rows} rows x {tile.lanes} columns a thread, from memory"
    remark("schedule", sch.block_op(block), text)
    epilogue = take_epilogue(sch, block)
    beside = blocks_beside(sch, block, epilogue)
    height = sch.knob("rows", sorted({1, 2, 4, 8, tile.rows}), default=tile.rows)
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
    accumulate(sch, block, thread, reduce, sums, tile.lanes, dot)
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
) -> None:
    """Keep a thread's sums in registers through a reduction inside of a loop, and write out the
    last steps of it."""
    inner = unroll_steps(sch, reduce, sums)
    # A dot product has its start in a block of its own.
    if inner or dot is not None:
        init = sch.decompose_reduction(block, (inner or reduce)[0])
        write_out_tile(sch, init, around, lanes)
    if dot is not None:
        sch.tensorize(block, dot.name)
    sch.set_scope(block, "register")
    write_out_tile(sch, block, around, lanes)


def unroll_steps(sch: Schedule, reduce: list[Loop], sums: int) -> list[Loop]:
    """Write out the last steps of a reduction for a thread with so many sums; the loops that
    are left, outermost first."""
    left = min(MOST_STEPS, max(WRITTEN_OUT // sums, 1))
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
    """Write out the loops over a thread's tile."""
    loops, op = sch.get_loops(block), sch.block_op(block)
    own = [o for o in loops[loops.index(around) + 1 :] if is_spatial(sch, o, op)]
    own = [o for o in own if sch.extent(o) > 1]
    if own:
        write_out(sch, own, lanes)


def finish(sch: Schedule, epilogue: Block, thread: Loop, lanes: int) -> None:
    """Compute an epilogue in the thread that has its sums."""
    sch.reverse_compute_at(epilogue, thread)
    loops = sch.get_loops(epilogue)
    own = loops[loops.index(thread) + 1 :]
    if own and 1 < lanes < sch.extent(own[-1]):
        own = [*own[:-1], *sch.split(own[-1], factors=[None, lanes])]
    if own:
        write_out(sch, own, lanes)
