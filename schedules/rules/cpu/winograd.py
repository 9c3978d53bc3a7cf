"""Winograd convolutions: all data for a chunk of tiles stays in cache.

parallel over chunks of tiles
  for each block of input channels, each tile      data = BT d B, in registers
  for each group of output channels
    for each element of a transformed tile         products: a register tile as in a matmul
    for each tile and block of the group           AT m A, epilogue, one store for each output
      for each output                              a long epilogue has loops of its own
"""

from __future__ import annotations

from xdsl.ir import BlockArgument

from tcopt.dialects.graph.core.forms import WINOGRAD
from tcopt.schedules.analysis.patterns import stored_bits
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.contraction import write_out
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import run_parallel
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.cpu.winograd_space import WinogradSpace
from tcopt.schedules.rules.nests import own_loops, vectorize_tile
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.winograd_stages import Stages, find_stages
from tcopt.schedules.spaces.space import Choice
from tcopt.schedules.state.state import buffers_read


@schedule_rule(target="cpu", priority=110)
class Winograd:
    """Rule for Winograd convolutions: contractions between transforms by constant tables."""

    name = "cpu-winograd"
    provides = (WINOGRAD,)

    def space(self, sch: Schedule, facts: CpuFacts) -> WinogradSpace | Declined:
        stages = find_stages(sch)
        return stages if isinstance(stages, Declined) else WinogradSpace(sch, stages, facts)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: WinogradSpace, choice: Choice
    ) -> Declined | None:
        """Write the schedule, from the last block to the first."""
        stages = space.stages
        store = sch.cache_write(stages.products, "register")
        chunk, group, place = _tile_result(sch, space, choice)
        _follow_up(sch, stages, place)
        sch.compute_at(stages.right, place)
        sch.set_scope(stages.right, "register")
        _in_registers(sch, stages.right, place)
        _contract(sch, space, store, group, choice)
        if choice["data"]:
            region, tile = _share_data(sch, space, choice)
        else:
            sch.compute_at(stages.data, chunk)
            region, *_, tile = _transform_data(sch, stages, chunk, [choice["tile_columns"]])
        sch.compute_at(stages.left, tile)
        sch.set_scope(stages.left, "register")
        for each in stages.others:
            schedule_injective(sch, each, facts)
        if stages.pad is not None:
            sch.compute_at(stages.pad, region)
            sch.vectorize(sch.get_loops(stages.pad)[-1])
        _in_registers(sch, stages.left, tile)
        for each in (stages.data, store):
            # An odd number of cache lines between elements of the tile avoids cache set conflicts.
            line = CACHE_LINE_BITS // stored_bits(sch.block_op(each))
            sch.storage_align(each, 1, 2 * line, line)
        return None


CACHE_LINE_BITS = 512
"""Cache line size of all supported CPUs, in bits."""


def _tile_result(sch: Schedule, space: WinogradSpace, choice: Choice) -> tuple[Loop, Loop, Loop]:
    """Tile the last block; return the loops over chunks, groups of channels, and tiles."""
    stages = space.stages
    extent = sch.block_op(stages.right).domain[2]
    n, o, h, w, lane = sch.get_loops(stages.last)
    chunk_row, row, i = sch.split(h, [None, choice["tile_rows"], extent])
    chunk_column, column, j = sch.split(w, [None, choice["tile_columns"], extent])
    group, part, block = sch.split(o, [None, choice["groups"], choice["vectors"]])
    inner = (row, column, part, block, i, j, lane)
    chunks = [n, chunk_row, chunk_column]
    if choice["data"]:
        sch.reorder(group, *chunks, *inner)
        *_, last = run_parallel(sch, [group, *chunks], choice["parallel"], space.time, space.facts)
        chunk = group = last
    else:
        sch.reorder(*chunks, group, *inner)
        *_, chunk = run_parallel(sch, chunks, choice["parallel"], space.time, space.facts)
    sch.vectorize(lane)
    if not stages.epilogue:
        sch.unroll(j)
        sch.unroll(i)
    return chunk, group, block


def _follow_up(sch: Schedule, stages: Stages, tile: Loop) -> None:
    """Compute the inputs of a long epilogue per tile; its own loops are not unrolled."""
    for each in reversed(stages.epilogue[:-1]):
        sch.compute_at(each, tile)
        sch.vectorize(sch.get_loops(each)[-1])
    if stages.epilogue:
        sch.compute_at(stages.result, tile)
        _in_registers(sch, stages.result, tile)


def _contract(
    sch: Schedule,
    space: WinogradSpace,
    store: Block,
    group: Loop,
    choice: Choice,
) -> None:
    """Compute register tiles of image tiles by output channels, in the loop over groups.

    There is one contraction for each element of a transformed tile. The weights of a tile are used
    for all rows before the next ones are loaded. With `prefetch`, the weights of the next element
    are prefetched meanwhile. If weights are stored for a dot product, it adds the terms of a group.
    """
    products, dot = space.stages.products, space.dot
    sch.compute_at(store, group)
    loops = own_loops(sch, store, group)
    outer = [loops[v] for v in (0, 1)]
    inside = dict(loops)
    for variable, size in ((3, choice["vectors"]), (2, choice["rows"])):
        if variable in loops:
            between, inside[variable] = sch.split(loops[variable], [None, size])
            outer.append(between)
    sch.reorder(*outer, *(inside[v] for v in (2, 3, 4) if v in inside))
    sch.compute_at(products, outer[-1])
    loops = own_loops(sch, products, outer[-1])
    terms: list[Loop] = []
    if dot is not None:
        loops[dot.variable], each = sch.split(loops[dot.variable], [None, dot.group])
        terms.append(each)
    reduce = [loops[v] for v in (5, 6) if v in loops]
    sch.reorder(*reduce, *(loops[v] for v in (2, 3, 4) if v in loops), *terms)
    init = sch.decompose_reduction(products, reduce[0])
    if choice["prefetch"]:
        read = buffers_read(sch.block_op(products))
        weights = next(i for i, buffer in enumerate(read) if isinstance(buffer, BlockArgument))
        sch.prefetch(products, weights, outer[1], reduce[0])
    if dot is not None:
        sch.tensorize(products, dot.name)
    for each in (store, products, init):
        inner = reduce[-1] if each == products else outer[-1]
        _in_registers(sch, each, inner)
    write_out(sch, reduce, choice)


def _transform_data(
    sch: Schedule, stages: Stages, around: Loop | None, tiles: list[int]
) -> list[Loop]:
    """Transform the data one channel block after the other, each tile in registers.

    Args:
        around: the loop that contains the block; None for a separate nest.
        tiles: the extents by which the loop over tiles is split.
    Returns:
        The loops over channel blocks and tiles, outermost first; a single loop is listed twice.
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


def _share_data(sch: Schedule, space: WinogradSpace, choice: Choice) -> tuple[Loop, Loop]:
    """Transform the data of all tiles in a separate parallel loop.

    Returns:
        The loop over regions whose input is padded at once, and the loop over tiles.
    """
    problem = space.problem
    tiles = [problem.rows // choice["data_rows"], problem.columns]
    loops = _transform_data(sch, space.stages, None, tiles)
    outer = run_parallel(sch, loops[:-2], choice["data_parallel"], space.data_time, space.facts)
    return outer[-1], loops[-1]


def _in_registers(sch: Schedule, block: Block, around: Loop | None) -> None:
    """Unroll and vectorise everything that a block does in one iteration of a loop."""
    loops = sch.get_loops(block)
    if around is not None:
        loops = loops[loops.index(around) + 1 :]
    vectorize_tile(sch, loops)
