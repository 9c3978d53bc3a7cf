"""Convolutions through small transforms: everything a chunk of tiles needs stays in cache.

parallel over chunks of tiles
  for each block of input channels, each tile      data = BT d B, in registers
  for each group of output channels
    for each place of a transformed tile           products: a register tile as in a matmul
    for each tile and block of the group           AT m A, epilogue, one store for each output
      for each output                              a long epilogue has loops of its own
"""

from __future__ import annotations

from math import prod

from xdsl.ir import BlockArgument

from tcopt.dialects.graph.forms import WINOGRAD
from tcopt.schedules.analysis.patterns import element_bits
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.contraction import unroll_steps
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import LEAST_TASKS_PER_CORE, parallelize
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.cpu.tiles import MAX_ROWS, MAX_VECTORS
from tcopt.schedules.rules.cpu.winograd_plan import Plan, Problem, choose_plan, divisors
from tcopt.schedules.rules.nests import own_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.winograd_stages import Stages, find_stages
from tcopt.schedules.state.state import buffers_read


@schedule_rule(target="cpu", priority=110)
class Winograd:
    """Rule for a contraction for each entry of tiles, between transforms by constant tables."""

    name = "cpu-winograd"
    provides = (WINOGRAD,)

    def apply(self, sch: Schedule, facts: CpuFacts) -> Declined | None:
        stages = find_stages(sch)
        if isinstance(stages, Declined):
            return stages
        schedule_stages(sch, stages, facts)
        return None


def schedule_stages(sch: Schedule, stages: Stages, facts: CpuFacts) -> None:
    """Write the schedule, from the last block to the first."""
    problem = problem_of(sch, stages)
    plan = choose_plan(problem, facts)
    rows = sch.knob("tile_rows", divisors(problem.rows), default=plan.rows)
    columns = sch.knob("tile_columns", divisors(problem.columns), default=plan.columns)
    # A loop over one iteration is left out, so 1 is a choice of its own.
    vectors = sch.knob("vectors", _like(plan.tile.vectors, MAX_VECTORS), default=plan.tile.vectors)
    height = sch.knob("rows", _like(plan.tile.rows, MAX_ROWS), default=plan.tile.rows)
    most = problem.outputs // plan.tile.vectors
    choices = [d for d in divisors(most) if (d * vectors > 1) == (plan.groups * vectors > 1)]
    groups = sch.knob("groups", choices, default=plan.groups)
    bits = element_bits(sch.block_op(stages.data))

    store = sch.cache_write(stages.products, "register")
    chunk, group, place = _tile_result(sch, stages, plan, (rows, columns, vectors, groups), facts)
    _follow_up(sch, stages, place)
    sch.compute_at(stages.right, place)
    sch.set_scope(stages.right, "register")
    _in_registers(sch, stages.right, place)
    ahead = _comes_from_afar(problem, vectors * groups, facts)
    _contract(sch, stages.products, store, group, (height, vectors), ahead)
    if plan.shared:
        region, tile = _share_data(sch, stages, problem, facts)
    else:
        sch.compute_at(stages.data, chunk)
        region, *_, tile = _transform_data(sch, stages, chunk, [columns])
    sch.compute_at(stages.left, tile)
    sch.set_scope(stages.left, "register")
    for each in stages.others:
        schedule_injective(sch, each, facts)
    if stages.pad is not None:
        sch.compute_at(stages.pad, region)
        sch.vectorize(sch.get_loops(stages.pad)[-1])
    _in_registers(sch, stages.left, tile)
    line = CACHE_LINE_BITS // bits
    for each in (stages.data, store):
        # Places an odd number of cache lines apart fall into sets of their own.
        sch.storage_align(each, 1, 2 * line, line)


def _like(number: int, most: int) -> list[int]:
    return [1] if number == 1 else list(range(2, most + 1))


CACHE_LINE_BITS = 512
"""Of the CPUs there are rules for."""


def problem_of(sch: Schedule, stages: Stages) -> Problem:
    """The sizes, read off the blocks."""
    images, blocks, height, width, lanes = sch.block_op(stages.result).domain
    extent = sch.block_op(stages.right).domain[2]
    places, _, inputs, *_ = sch.block_op(stages.data).domain
    return Problem(
        images=images,
        rows=-(-height // extent),
        columns=-(-width // extent),
        places=places * places,
        inputs=inputs,
        outputs=blocks,
        lanes=lanes,
        bytes=element_bits(sch.block_op(stages.data)) // 8,
    )


def _tile_result(
    sch: Schedule, stages: Stages, plan: Plan, sizes: tuple[int, int, int, int], facts: CpuFacts
) -> tuple[Loop, Loop, Loop]:
    """Tile the last block: the loops of a chunk, of a group of channels in it, and of a tile."""
    rows, columns, vectors, groups = sizes
    problem = problem_of(sch, stages)
    extent = sch.block_op(stages.right).domain[2]
    n, o, h, w, lane = sch.get_loops(stages.last)
    chunk_row, row, i = sch.split(h, [None, rows, extent])
    chunk_column, column, j = sch.split(w, [None, columns, extent])
    group, part, block = sch.split(o, [None, groups, vectors])
    inner = (row, column, part, block, i, j, lane)
    work = 2 * problem.places * problem.images * problem.rows * problem.columns
    work *= problem.inputs * problem.outputs * problem.lanes**2
    chunks = [n, chunk_row, chunk_column]
    if plan.shared:
        sch.reorder(group, *chunks, *inner)
        *_, last = parallelize(sch, [group, *chunks], work, facts)
        chunk = group = last
    else:
        sch.reorder(*chunks, group, *inner)
        *_, chunk = parallelize(sch, chunks, work, facts)
    sch.vectorize(lane)
    if not stages.epilogue:
        sch.unroll(j)
        sch.unroll(i)
    return chunk, group, block


def _follow_up(sch: Schedule, stages: Stages, tile: Loop) -> None:
    """Compute a tile of what the epilogue reads; its own loops stay, as it is long."""
    for each in reversed(stages.epilogue[:-1]):
        sch.compute_at(each, tile)
        sch.vectorize(sch.get_loops(each)[-1])
    if stages.epilogue:
        sch.compute_at(stages.result, tile)
        _in_registers(sch, stages.result, tile)


def _comes_from_afar(problem: Problem, blocks: int, facts: CpuFacts) -> bool:
    """Whether weights lie outside of the second cache, which has room for those of a place.

    Args:
        blocks: blocks of output channels that are contracted before the next place.
    """
    block = problem.inputs * problem.lanes**2 * problem.bytes
    whole = block * problem.outputs * problem.places
    return whole > facts.l2 and block * blocks <= facts.l2 // 4


def _contract(
    sch: Schedule,
    products: Block,
    store: Block,
    group: Loop,
    tile: tuple[int, int],
    ahead: bool,
) -> None:
    """Register tiles of tiles by output channels, for each place, in the loop of a group.

    The weights of a tile serve all rows before the next ones come.

    Args:
        ahead: whether the weights of the next place come near during one.
    """
    sch.compute_at(store, group)
    loops = own_loops(sch, store, group)
    outer = [loops[v] for v in (0, 1)]
    inside = dict(loops)
    for variable, size in ((3, tile[1]), (2, tile[0])):
        if variable in loops:
            between, inside[variable] = sch.split(loops[variable], [None, size])
            outer.append(between)
    sch.reorder(*outer, *(inside[v] for v in (2, 3, 4) if v in inside))
    sch.compute_at(products, outer[-1])
    loops = own_loops(sch, products, outer[-1])
    reduce = [loops[v] for v in (5, 6) if v in loops]
    sch.reorder(*reduce, *(loops[v] for v in (2, 3, 4) if v in loops))
    init = sch.decompose_reduction(products, reduce[0])
    if ahead:
        read = buffers_read(sch.block_op(products))
        weights = next(i for i, buffer in enumerate(read) if isinstance(buffer, BlockArgument))
        sch.prefetch(products, weights, outer[1], reduce[0])
    for each in (store, products, init):
        inner = reduce[-1] if each == products else outer[-1]
        _in_registers(sch, each, inner)
    unroll_steps(sch, reduce, prod(tile))


def _transform_data(
    sch: Schedule, stages: Stages, around: Loop | None, tiles: list[int]
) -> list[Loop]:
    """Transform data channel block by channel block, each tile in registers.

    Args:
        around: the loop that the block is in; None for a nest of its own.
        tiles: the extents to split the loop over tiles by.
    Returns:
        The loops over channel blocks and tiles, outermost first; one loop stands twice.
    """
    loops = own_loops(sch, stages.data, around)
    outer = [loops[2]] if 2 in loops else []
    if 3 in loops:
        outer += sch.split(loops[3], [None, *tiles])
    inner = [loops[v] for v in (0, 1, 4) if v in loops]
    sch.reorder(*outer, *inner)
    _in_registers(sch, stages.data, outer[-1] if outer else around)
    if not outer and around is not None:
        outer = [around]
    return outer if len(outer) > 1 else outer * 2


def _share_data(
    sch: Schedule, stages: Stages, problem: Problem, facts: CpuFacts
) -> tuple[Loop, Loop]:
    """Transform the data of all tiles in a parallel loop of its own.

    Returns:
        The loop of a region whose input is padded at once, and that of a tile.
    """
    wanted = LEAST_TASKS_PER_CORE * facts.cores
    images = problem.images * problem.inputs
    rows = next(d for d in divisors(problem.rows) if images * d >= wanted or d == problem.rows)
    loops = _transform_data(sch, stages, None, [problem.rows // rows, problem.columns])
    work = problem.places * problem.lanes * images * problem.rows * problem.columns
    outer = parallelize(sch, loops[:-2], TRANSFORM_WORK * work, facts)
    return outer[-1], loops[-1]


TRANSFORM_WORK = 6
"""Scalar operations for each number of a transformed tile, roughly."""


def _in_registers(sch: Schedule, block: Block, around: Loop | None) -> None:
    """Write out all that a block does in one iteration of a loop, in vectors."""
    loops = sch.get_loops(block)
    if around is not None:
        loops = loops[loops.index(around) + 1 :]
    for each in loops[:-1]:
        sch.unroll(each)
    if loops:
        sch.vectorize(loops[-1])
