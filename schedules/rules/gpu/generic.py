"""Template for any operator, used by schedule search: tiles of blocks, threads and registers.

    for each tile of a block                       blockIdx
      for each virtual thread, for each thread     threadIdx
        sums = 0                                   in registers
        for each part of the sum
          all threads: copy or compute the operands of the block             shared, if chosen
          for each piece of the part, tile of the thread, term of the piece
            for each element                       unrolled, innermost loop vectorised
        epilogue and store

The most expensive block is tiled. Its epilogue, and producers of operands that are computed in
shared memory, are part of its launch; other blocks have separate launches.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import take_epilogue
from tcopt.schedules.rules.gpu.fallback import element_a_thread
from tcopt.schedules.rules.gpu.generic_space import (
    ELEMENTS,
    FROM_MEMORY,
    MADE_SHARED,
    PIECES,
    PLACES,
    TERMS,
    THREADS,
    VIRTUAL,
    GpuGenericSpace,
)
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.launches import is_update
from tcopt.schedules.rules.gpu.register_tile import finish, write_out_tile
from tcopt.schedules.rules.gpu.shared_reduction import share_reduction
from tcopt.schedules.rules.heaviest import heaviest
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice
from tcopt.support.machines.thread_blocks import ThreadBlocks
from tcopt.support.remarks import remark


@schedule_rule(target="gpu", priority=-100)
class GpuGeneric:
    """Rule for any function with a block that stores once, asked only by a schedule search."""

    name = "gpu-generic"
    template = True

    def space(self, sch: Schedule, facts: ThreadBlocks) -> GpuGenericSpace | Declined:
        pattern = heaviest(sch)
        if pattern is None:
            return Declined("no block stores once in a loop of its own")
        block = sch.get_block(pattern.block.block_name.data)
        own = [p for p in sch.producers(block) if sch.consumers(p) == [block]]
        makers = [
            p
            for p in own
            if not sch.block_op(p).is_reduction
            and not sch.producers(p)
            and match_block(sch.block_op(p)) is not None
        ]
        return GpuGenericSpace(sch, pattern, makers, facts)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: GpuGenericSpace, choice: Choice
    ) -> Declined | None:
        block = sch.get_block(space.pattern.block.block_name.data)
        remark("schedule", sch.block_op(block), space.tile_text(choice))
        done = _tile(sch, block, space, choice)
        for each in sch.blocks():
            if each in done:
                continue
            op = sch.block_op(each)
            if op.is_reduction and match_block(op) is not None and is_update(op):
                share_reduction(sch, each, facts)
            elif op.is_reduction:
                element_a_thread(sch, each, facts)
            else:
                schedule_injective(sch, each, facts)
        return None


def _tile(sch: Schedule, block: Block, space: GpuGenericSpace, choice: Choice) -> set[Block]:
    """Map the main block to blocks and threads; return all blocks that are part of its launch."""
    epilogue = take_epilogue(sch, block) if space.reduce else None
    levels = _levels(sch, block, space, choice)
    order = space.order(choice["neighbours"])
    blocks, virtual = ([levels[v][level] for v in space.spatial] for level in (0, VIRTUAL))
    threads = [levels[v][THREADS] for v in order]
    parts, pieces, terms = ([levels[v][n] for v in space.reduce] for n in (0, PIECES, TERMS))
    places = [levels[v][PLACES] for v in space.spatial]
    elements = {v: levels[v][ELEMENTS] for v in space.spatial}
    lane = elements.pop(choice["vector"], None)
    last = [*elements.values(), *([] if lane is None else [lane])]
    sch.reorder(*blocks, *virtual, *threads, *parts, *pieces, *places, *terms, *last)
    sch.bind(_fused(sch, blocks), "blockIdx.x")
    for each in virtual:
        if sch.extent(each) > 1:
            sch.virtual_thread(each)
    thread = _fused(sch, threads)
    sch.bind(thread, "threadIdx.x")
    lanes = 1 if lane is None else sch.extent(lane)
    if epilogue is None:
        write_out_tile(sch, block, thread, lanes)
        return {block}
    copies = _share(sch, block, space, choice, parts[-1], sch.extent(thread))
    for written, loops in ((1, terms), (2, pieces)):
        if choice["unroll"] >= written:
            for each in loops:
                sch.unroll(each)
    init = sch.decompose_reduction(block, parts[0])
    sch.set_scope(block, "register")
    for each in (init, block):
        write_out_tile(sch, each, thread, lanes)
    finish(sch, epilogue, thread, lanes)
    return {block, init, epilogue, *copies}


def _levels(
    sch: Schedule, block: Block, space: GpuGenericSpace, choice: Choice
) -> dict[int, list[Loop]]:
    """Split all loops of a block."""
    loops, levels = variable_loops(sch, block), dict[int, list[Loop]]()
    for v in space.spatial:
        sizes = [choice[f"s{v}.{level}"] for level in (VIRTUAL, THREADS, PLACES, ELEMENTS)]
        levels[v] = sch.split(loops[v], [None, *sizes])
    for v in space.reduce:
        levels[v] = sch.split(loops[v], [None, choice[f"r{v}.{PIECES}"], choice[f"r{v}.{TERMS}"]])
    return levels


def _fused(sch: Schedule, loops: Sequence[Loop]) -> Loop:
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def _share(
    sch: Schedule, block: Block, space: GpuGenericSpace, choice: Choice, part: Loop, threads: int
) -> list[Block]:
    """Let all threads of a thread block fetch or compute its operands for a part of the sum."""
    copies: list[Block] = []
    for read in space.reads:
        place = choice[read.knob]
        if place == FROM_MEMORY:
            continue
        if place == MADE_SHARED and read.maker is not None:
            copy = read.maker
            sch.set_scope(copy, "shared")
        else:
            copy = sch.cache_read(block, read.number, "shared")
        sch.compute_at(copy, part)
        loops = sch.get_loops(copy)
        _spread(sch, loops[loops.index(part) + 1 :], threads, choice["copied"])
        if choice["ahead"]:
            sch.double_buffer(copy)
        copies.append(copy)
    return copies


def _spread(sch: Schedule, loops: Sequence[Loop], threads: int, copied: int) -> None:
    """Distribute a copy over all threads of a block, one vector at a time."""
    if not loops:
        return
    lanes = copied if sch.extent(loops[-1]) % copied == 0 else 1
    _, thread, lane = sch.split(_fused(sch, loops), [None, threads, lanes])
    sch.bind(thread, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(lane)
