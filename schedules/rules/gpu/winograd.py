"""Winograd convolutions in three launches.

    each thread: a tile of a channel of the input      data = BT d B, in registers
    for each element of a transformed tile             products: a tiled matrix product
    each thread: a tile of a channel of the output     AT m A, epilogue, a store for each output

Adjacent threads have adjacent tiles, whose elements at the same position are contiguous in memory.
"""

from __future__ import annotations

from tcopt.dialects.graph.core.forms import WINOGRAD
from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu import register_tile, shared_tile
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.register_tile import RegisterTile
from tcopt.schedules.rules.gpu.shared_tile_space import SharedTileSpace
from tcopt.schedules.rules.gpu.threads import spread, write_out
from tcopt.schedules.rules.gpu.winograd_space import WinogradSpace, open_winograd
from tcopt.schedules.rules.nests import own_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.winograd_stages import Stages, find_stages
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.schedules.state.state import buffers_read
from tcopt.support.machines.thread_blocks import ThreadBlocks
from tcopt.support.remarks import remark


@schedule_rule(target="gpu", priority=110)
class Winograd:
    """Rule for Winograd convolutions: contractions between transforms by constant tables."""

    name = "gpu-winograd"
    provides = (WINOGRAD,)

    def space(self, sch: Schedule, facts: ThreadBlocks) -> WinogradSpace | Declined:
        stages = find_stages(sch)
        return stages if isinstance(stages, Declined) else open_winograd(sch, stages, facts)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: WinogradSpace, choice: Choice
    ) -> Declined | None:
        stages = space.stages
        _, _, *tile = sch.block_op(stages.right).domain
        text = f"tiles of {tile[0]} x {tile[0]} through {tile[1]} x {tile[1]}, a thread each"
        remark("schedule", sch.block_op(stages.result), text)
        transform_back(sch, stages, facts, choice["result_threads"], choice["result_lanes"])
        contract(sch, space, facts, choice)
        transform_data(sch, stages, facts, choice["data_threads"])
        for each in stages.others:
            schedule_injective(sch, each, facts)
        return None


def transform_back(
    sch: Schedule, stages: Stages, facts: ThreadBlocks, threads: int, lanes: int
) -> None:
    """Compute a tile of results and their epilogue in each thread.

    Args:
        threads: threads of a block.
        lanes: lanes of the vectors by which rows are stored.
    """
    extent = sch.block_op(stages.right).domain[2]
    # Table entries are constants in unrolled loops.
    store = sch.cache_write(stages.last, "register") if lanes > 1 else stages.last
    *outer, height, width = sch.get_loops(store)
    row, i = sch.split(height, [None, extent])
    column, j = sch.split(width, [None, extent])
    sch.reorder(*outer, row, column, i, j)
    thread = spread(sch, [*outer, row, column], facts, threads)
    write_out(sch, [i, j], lanes)
    # A block may have several consumers.
    behind = [stages.right, stages.result, *stages.epilogue]
    for each in reversed(behind if store != stages.last else behind[:-1]):
        _in_registers(sch, each, thread)


def contract(sch: Schedule, space: WinogradSpace, facts: ThreadBlocks, choice: Choice) -> None:
    """Schedule one matrix product per element of the tile.

    Its operands are in shared memory if possible.
    """
    pattern, open_ = match_block(sch.block_op(space.stages.products)), space.products
    assert pattern is not None
    if isinstance(open_, SharedTileSpace):
        tile = open_.tile(Point(dict(choice)))
        shared_tile.schedule_tile(sch, pattern, open_.roles, tile, facts, choice["written"])
        return
    own = RegisterTile(choice["rows"], choice["lanes"])
    roles = open_.rows, open_.columns
    register_tile.schedule_tile(sch, pattern, *roles, own, facts, open_.dot, choice["written"])


def transform_data(sch: Schedule, stages: Stages, facts: ThreadBlocks, threads: int) -> None:
    """Transform a tile of data in each thread, with its input in registers.

    Args:
        threads: threads of a block.
    """
    places = [sch.get_loops(stages.data)[v] for v in (0, 1)]
    others = [each for each in sch.get_loops(stages.data) if each not in places]
    sch.reorder(*others, *places)
    thread = spread(sch, others, facts, threads)
    write_out(sch, places, 1)
    _in_registers(sch, stages.left, thread)
    source = stages.pad
    if source is None:
        read = buffers_read(sch.block_op(stages.left))
        source = sch.cache_read(stages.left, 0, "register") if len(read) == 1 else None
    if source is not None:
        _in_registers(sch, source, thread)


def _in_registers(sch: Schedule, block: Block, thread: Loop) -> None:
    """Compute the part of a block that a thread needs in registers."""
    sch.compute_at(block, thread)
    sch.set_scope(block, "register")
    for each in own_loops(sch, block, thread).values():
        sch.unroll(each)
