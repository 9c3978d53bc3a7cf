"""Contractions with operands in shared memory.

    each block                                  rows x spans x columns of the output
      sums = 0                                  a tile of them in each thread's registers
      for each part of the reduction
        all threads: copy the block's part of both operands      shared
        for each term of the part
          each thread: multiply-add its tile
      epilogue and store

An element of an operand is fetched once for the block, by any of its threads, instead of once for
each thread that needs it. *Columns* are contiguous in the output; *spans* are a second variable
that moves the same operand, such as the height of an image; *rows* move only the other operand. An
operand with a producer, such as a padded image, is computed directly in shared memory. Several
vectors of columns are virtual threads. Dot products of bytes are the innermost loop; if channels
are in blocks as short as a vector, a thread has a whole block, and columns are the next variable.
"""

from __future__ import annotations

from math import prod

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.dots import Dot, dot_of, lane_dim, steps_of
from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    access_bits,
    match_block,
)
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import blocks_beside, take_epilogue
from tcopt.schedules.rules.gpu.register_tile import (
    WRITTEN_OUT,
    columns_of,
    finish,
    only_contraction,
    rows_of,
    unroll_steps,
    write_out_tile,
)
from tcopt.schedules.rules.gpu.shared_tile_choice import (
    BANK_SPACING,
    SharedTile,
    SharedTileRoles,
    TileCosts,
    choose_tile,
)
from tcopt.schedules.rules.gpu.shared_tile_space import SharedTileSpace
from tcopt.schedules.rules.gpu.split_sum import (
    choose_parts,
    finish_others,
    part_counts,
    split_sum,
)
from tcopt.schedules.rules.gpu.threads import share_work
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.operands import BYTE
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.schedules.state.state import buffers_read
from tcopt.support.machines.thread_blocks import WORD, ThreadBlocks
from tcopt.support.remarks import remark

LEAST_DEPTH = 8
"""Minimum number of terms of a sum for which synchronising threads pays off."""


@schedule_rule(target="gpu", priority=100)
class SharedTiles:
    """Rule for contractions in which several threads use each element."""

    name = "gpu-shared-tile"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: ThreadBlocks) -> SharedTileSpace | Declined:
        if not facts.shared:
            return Declined("shared memory is not faster than other memory", quiet=True)
        pattern = only_contraction(sch)
        if isinstance(pattern, Declined):
            return pattern
        if not pattern.has_own_buffers:
            return Declined("both operands are in one buffer")
        return open_tiles(pattern, facts)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: SharedTileSpace, choice: Choice
    ) -> Declined | None:
        pattern, roles, parts = space.pattern, space.roles, choice["parts"]
        block = sch.get_block(pattern.block.block_name.data)
        if parts > 1:
            pattern = split_sum(sch, pattern, roles.depth, parts)
            found = find_roles(pattern, dot_of(pattern, facts.capabilities), facts)
            if isinstance(found, Declined):
                return found
            roles = found
        tile = space.tile(Point(dict(choice)))
        left = schedule_tile(sch, pattern, roles, tile, facts, choice["written"])
        return finish_others(sch, block, parts, left, facts)


def depth_group(roles: SharedTileRoles) -> int:
    """Return the number of terms along the depth that a dot product adds at once."""
    dot = roles.dot
    return dot.group if dot is not None and dot.variable == roles.depth else 1


def tile_parts(pattern: BlockPattern, roles: SharedTileRoles, facts: ThreadBlocks) -> int:
    """Return the number of parts into which to divide each sum."""
    found = choose_tile(pattern, roles, facts)
    if found is None:
        return 1

    def time(parts: int) -> float | None:
        tiled = found if parts == 1 else choose_tile(pattern, roles, facts, parts)
        return None if tiled is None else tiled[1]

    blocks = TileCosts(pattern, roles, facts).blocks(found[0])
    return choose_parts(pattern, roles.depth, blocks, time, facts, depth_group(roles))


def open_tiles(
    pattern: BlockPattern, facts: ThreadBlocks, *, in_parts: bool = True
) -> SharedTileSpace | Declined:
    """Return the space of tiles with operands in shared memory, or decline.

    Args:
        in_parts: whether several blocks may share a sum.
    """
    roles = find_roles(pattern, dot_of(pattern, facts.capabilities), facts)
    if isinstance(roles, Declined):
        return roles
    parts = tile_parts(pattern, roles, facts) if in_parts else 1
    found = choose_tile(pattern, roles, facts, parts)
    if found is None:
        return Declined("no tile fits shared memory and threads")
    counts = part_counts(pattern, roles.depth, depth_group(roles)) if in_parts else ()
    return SharedTileSpace(pattern, roles, facts, found[0], parts, counts)


def find_roles(
    pattern: BlockPattern, dot: Dot | None, facts: ThreadBlocks
) -> SharedTileRoles | Declined:
    """Assign the roles, or decline with the reason why sharing gains nothing."""
    columns, lane = columns_of(pattern), None
    if columns is None:
        return Declined("no variable is contiguous in the output")
    weights = None if dot is None else dot.weights
    if dot is not None and weights is None:
        return Declined("bit counts are not supported")
    if weights is not None and not weights.is_unit(columns, lane_dim(weights, dot)):
        return Declined("results of dot products are not contiguous")
    if dot is not None and pattern.extents[columns] <= _result_lanes(pattern, facts):
        lane = columns
        columns = next((v for v in pattern.spatial[::-1] if is_moving(pattern, v, lane)), None)
        if columns is None:
            return Declined("there is one vector of results")
    rows = rows_of(pattern, columns, lane)
    if rows is None or not any(not t.uses(rows) for t in pattern.terms):
        return Declined("no operand serves several rows")
    if any(steps_of(term, v, dot) is None for term in pattern.terms for v in pattern.variables):
        return Declined("an operand is not read at linear indices")
    if prod(pattern.extents[v] for v in pattern.reduce) < LEAST_DEPTH:
        return Declined("a sum has too few terms to wait for other threads")
    along = [t for t in pattern.terms if t.uses(columns)]
    across = [t for t in pattern.terms if not t.uses(columns)]
    spans = [
        v
        for v in pattern.spatial
        if is_moving(pattern, v, columns)
        and v != lane
        and all(t.uses(v) for t in along)
        and not any(t.uses(v) for t in across)
    ]
    depth = max(pattern.reduce, key=lambda v: (pattern.extents[v], -v))
    return SharedTileRoles(rows, columns, spans[-1] if spans else None, depth, lane, dot)


def is_moving(pattern: BlockPattern, variable: int, other: int) -> bool:
    """Whether a variable differs from another one, and has more than one value."""
    return variable != other and pattern.extents[variable] > 1


def schedule_tile(
    sch: Schedule,
    pattern: BlockPattern,
    roles: SharedTileRoles,
    tile: SharedTile,
    facts: ThreadBlocks,
    written: int = WRITTEN_OUT,
) -> list[Block]:
    """Tile the contraction for blocks and threads, with its operands in shared memory.

    Args:
        written: number of multiply-adds of a thread to unroll.
    Returns:
        The other blocks that need separate launches.
    """
    block = sch.get_block(pattern.block.block_name.data)
    remark("schedule", sch.block_op(block), f"tile of {tile}, operands in shared memory")
    epilogue = take_epilogue(sch, block)
    beside = blocks_beside(sch, block, epilogue)
    loops = variable_loops(sch, block)
    row_block, row_thread, row = sch.split(loops.pop(roles.rows), [None, tile.down, tile.rows])
    # The vectors of a thread are as far apart as all threads reach together: adjacent threads then
    # read and store adjacent vectors, in different banks.
    factors = [None, tile.columns // tile.lanes, tile.across, tile.lanes]
    column_block, virtual, column_thread, lane = sch.split(loops.pop(roles.columns), factors)
    blocks, inner = [column_block], [row]
    if roles.spans is not None and roles.spans in loops:
        span_block, span = sch.split(loops.pop(roles.spans), [None, tile.spans])
        blocks.insert(0, span_block)
        inner.append(span)
    part, loops[roles.depth] = sch.split(loops.pop(roles.depth), [None, tile.steps])
    inner.append(lane)
    lanes = tile.lanes
    if roles.lane is not None:
        inner.append(loops.pop(roles.lane))
        lanes = tile.results
    if roles.dot is not None:
        variable = roles.dot.variable
        loops[variable], terms = sch.split(loops[variable], [None, roles.dot.group])
        inner.append(terms)
    reduce = [loops[v] for v in (roles.depth, *pattern.reduce) if v in loops]
    reduce = list(dict.fromkeys(reduce))
    others = [loops[v] for v in pattern.spatial if v in loops]
    threads = [virtual, row_thread, column_thread]
    sch.reorder(*others, row_block, *blocks, *threads, part, *reduce, *inner)
    _bind(sch, others, "blockIdx.z")
    _bind(sch, [row_block], "blockIdx.y")
    _bind(sch, blocks, "blockIdx.x")
    if tile.columns > tile.lanes:
        sch.virtual_thread(virtual)
    sch.bind(row_thread, "threadIdx.y")
    sch.bind(column_thread, "threadIdx.x")
    left = _share_operands(sch, block, pattern, roles, beside, part, tile, facts)
    unroll_steps(sch, reduce, tile.sums, written)
    init = sch.decompose_reduction(block, part)
    if roles.dot is not None:
        sch.tensorize(block, roles.dot.name)
    sch.set_scope(block, "register")
    for each in (init, block):
        write_out_tile(sch, each, column_thread, lanes)
    finish(sch, epilogue, column_thread, lanes)
    return left


def _bind(sch: Schedule, loops: list[Loop], axis: str) -> None:
    if loops:
        sch.bind(sch.fuse(*loops) if len(loops) > 1 else loops[0], axis)


def _share_operands(
    sch: Schedule,
    block: Block,
    pattern: BlockPattern,
    roles: SharedTileRoles,
    beside: list[Block],
    part: Loop,
    tile: SharedTile,
    facts: ThreadBlocks,
) -> list[Block]:
    """Let all threads of a block fetch the operands for a part of the reduction.

    Returns:
        The other blocks that need separate launches.
    """
    left = list(beside)
    for term in pattern.terms:
        made = next((p for p in left if makes_operand(sch, p, term, block)), None)
        if made is None:
            place = buffers_read(sch.block_op(block)).index(term.buffer)
            copy = sch.cache_read(block, place, "shared")
        else:
            left.remove(made)
            copy = made
            sch.set_scope(copy, "shared")
        if not term.uses(roles.columns) and tile.has_rows_in_warps(facts.warp):
            _space_rows(sch, copy, term, roles.rows)
        sch.compute_at(copy, part)
        loops = sch.get_loops(copy)
        loops = loops[loops.index(part) + 1 :]
        lanes = 1
        if loops and (made is None or access_bits(term) == BYTE):
            lanes = _copied_lanes(sch, term, loops, tile, facts)
        share_work(sch, loops, (tile.down, tile.across), lanes)
    return left


def _space_rows(sch: Schedule, copy: Block, term: StridedAccess, rows: int) -> None:
    """Space rows that threads read at the same time, so that they start in different banks."""
    steps = term.steps[rows] or ()
    dim = next((dim for dim, step in enumerate(steps) if step), len(steps))
    if dim < len(steps) - 1:
        words = max(WORD * BYTE // access_bits(term), 1)
        factor, offset = (words * each for each in BANK_SPACING)
        sch.storage_align(copy, dim, factor, offset)


def _result_lanes(pattern: BlockPattern, facts: ThreadBlocks) -> int:
    """Return the results of a dot product that form a vector of one thread."""
    return facts.lanes(access_bits(pattern.store))


def _copied_lanes(
    sch: Schedule, term: StridedAccess, loops: list[Loop], tile: SharedTile, facts: ThreadBlocks
) -> int:
    """Return the number of adjacent elements that a thread copies at once.

    These are whole vectors of rows that blocks divide evenly, if there are enough for all threads.
    """
    width, row = sch.extent(loops[-1]), buffer_shape(term.buffer)[-1]
    elements = prod(map(sch.extent, loops))
    lanes = facts.lanes(access_bits(term), width)
    while lanes > facts.words and elements < lanes * tile.threads:
        lanes //= 2
    is_even = width % lanes == 0 and row % width == 0
    # Copying single bytes is not faster than copying words.
    enough = access_bits(term) == BYTE or elements >= lanes * tile.threads
    return lanes if is_even and enough else 1


def makes_operand(sch: Schedule, producer: Block, term: StridedAccess, block: Block) -> bool:
    """Whether a block computes an operand for this block alone, element by element and cheaply."""
    source = match_block(sch.block_op(producer))
    if source is None or source.block.is_reduction or source.store.buffer is not term.buffer:
        return False
    return sch.consumers(producer) == [block] and not sch.producers(producer)
