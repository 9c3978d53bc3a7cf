"""Reductions, alone or with their producers and consumers: softmax, norms, means, pooling.

All values of a row are computed while it is in cache:

    parallel over rows, or over a few short ones at a time
      row maximum           vectors along the row, lanes combined at the end
      row of exponentials
      row sum
      quotient              one store

Vectors run along the output's last dimension. If the reductions keep that dimension (pooling,
softmax over channels), each lane reduces separately; if they reduce along it, each lane reduces
part of the row first (rfactor).
"""

from __future__ import annotations

from math import prod

from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    body_cost,
    element_bits,
    is_window,
    match_block,
    step_bytes,
    total_cost,
)
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.block_space import MOST_PARALLEL, BlockSpace
from tcopt.schedules.rules.cpu.contraction import find_roles, schedule_tiles
from tcopt.schedules.rules.cpu.estimated import ESTIMATED, estimated_knob, given
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import LEAST_TASKS_PER_CORE, parallelize
from tcopt.schedules.rules.cpu.injective import schedule_injective, vectorize_innermost
from tcopt.schedules.rules.cpu.tile_space import TileSpace
from tcopt.schedules.rules.cpu.vectors import group_size, set_kinds, short_row, split_vectors
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rows import Rows
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.spatial import is_spatial
from tcopt.schedules.spaces.space import Choice, Knob

TILE_VECTORS = 8
"""Vectors of a row if each lane reduces separately: enough to use whole cache lines and consecutive
pages, few enough to keep their accumulators in registers."""


ACCUMULATORS = 4
"""Vectors of a row that are reduced together if few operations are needed for each: the latency of
combining them dominates, and registers are available."""

FEW_OPERATIONS = 8
"""Maximum number of loads, stores and operations of such a reduction."""

PAGE_BYTES = 4096
"""Size of a memory page: hardware prefetching and address translation stop at its end."""


@schedule_rule(target="cpu", priority=50)
class Reduction:
    """Rule for functions that reduce and are not contractions."""

    name = "cpu-reduction"

    def space(self, sch: Schedule, facts: CpuFacts) -> TileSpace | RowSpace | Declined:
        blocks = sch.blocks()
        reductions = [block for block in blocks if sch.block_op(block).is_reduction]
        if not reductions:
            return Declined("no block reduces")
        pattern = match_block(sch.block_op(reductions[0]))
        if len(reductions) == 1 and pattern is not None and is_window(pattern):
            roles = find_roles(pattern, facts)
            if not isinstance(roles, Declined):
                return TileSpace(sch, pattern, roles, facts)
        last = [block for block in blocks if not sch.consumers(block)]
        if len(last) != 1:
            return Declined(f"{len(last)} blocks have no consumer, one is wanted")
        return RowSpace(sch, last[0], facts)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: TileSpace | RowSpace, choice: Choice
    ) -> Declined | None:
        if isinstance(space, TileSpace):
            for each in schedule_tiles(sch, space, choice):
                schedule_injective(sch, each, facts)
            return None
        final = space.final
        if sch.block_op(final).is_reduction:
            final = sch.cache_write(final, "register")
        rows = row_loops(sch, final, facts, choice)
        if isinstance(rows, Declined):
            return rows
        work = sum(total_cost(sch.block_op(b)) for b in sch.blocks())
        rows = parallelize(sch, rows, work, facts, given(choice["parallel"]))
        for block in reversed(sch.blocks()):
            if block != final and rows:
                sch.compute_at(block, rows[-1])
        for block in sch.blocks():
            schedule_in_row(sch, block, len(rows), facts, given(choice["vectors"]))
        return None


class RowSpace(BlockSpace):
    """Choices for rows: how many at a time, unrolled vectors, threads."""

    def __init__(self, sch: Schedule, final: Block, facts: CpuFacts):
        self.final = final
        knobs = (
            estimated_knob("parallel", tuple(range(MOST_PARALLEL + 1))),
            estimated_knob("vectors", (1, 2, 4, 8)),
            estimated_knob("neighbours", (1, 2, 4, 8, 16, 32, 64)),
            Knob("together", (ESTIMATED, 0, 1), ("estimated", "no", "yes"), is_quiet=True),
        )
        super().__init__(sch, knobs, facts)


def row_loops(
    sch: Schedule, final: Block, facts: CpuFacts, choice: Choice
) -> list[Loop] | Declined:
    """Return the loops of `final` inside of which all reductions are computed, moved outermost.

    They move the variables over which no reduction runs. If the last one is contiguous, vectors run
    along it, and a few of them make a row.
    """
    op = sch.block_op(final)
    pattern = match_block(op)
    if pattern is None:
        return Declined("the last block does not store once")
    loops = variable_loops(sch, final)
    dataflow = Rows(sch)
    moving = [v for v in pattern.spatial if v in loops]
    rows: list[Loop] = []
    rest: list[Loop] = []
    lanes = facts.lanes(element_bits(op))
    for variable in moving:
        shared = dataflow.kept(final, variable)
        loop = loops[variable]
        if shared is None:
            rest.append(loop)
        elif shared > 1:
            outer, inner = sch.split(loop, factors=[None, shared])
            rows.append(outer)
            rest.append(inner)
        elif variable == moving[-1] and dataflow.is_contiguous(final, variable):
            tile = _row_tile(sch, facts, element_bits(pattern.block))
            if (vectors := given(choice["neighbours"])) is not None:
                tile = vectors * lanes
            if sch.extent(loop) > tile:
                outer, loop = sch.split(loop, factors=[None, tile])
                rows.append(outer)
            rest.append(loop)
        else:
            rows.append(loop)
    if len(rest) == 1 and rows:
        together = given(choice["together"])
        if together is None:
            together = int(_are_short(sch, rows, rest[0], pattern, facts))
        if together:
            rows[-1], inner = sch.split(rows[-1], factors=[None, lanes])
            rest.insert(0, inner)
    if rows:
        sch.reorder(*rows, *rest)
    return rows


def _are_short(
    sch: Schedule, rows: list[Loop], row: Loop, pattern: BlockPattern, facts: CpuFacts
) -> bool:
    """Whether each step should process a vector of short rows before the next step.

    The steps of one row depend on each other, and a short row has too little work to hide the
    latency of its sum.
    """
    bits = element_bits(pattern.block)
    count = facts.lanes(bits)
    tiles, rest = divmod(sch.extent(rows[-1]), count)
    tasks = prod(map(sch.extent, rows[:-1])) * tiles
    along = is_vector_loop(sch, row, pattern) and sch.extent(row) >= count
    fits = count * sch.extent(row) * bits // 8 <= facts.l1 // 4
    return not rest and along and fits and tasks >= LEAST_TASKS_PER_CORE * facts.cores


def _row_tile(sch: Schedule, facts: CpuFacts, bits: int) -> int:
    """Return the number of adjacent elements that are reduced together, each lane separately.

    As many as fit the registers; but a whole page if each step of a reduction is in another page
    anyway, because the first access to a page costs more than keeping sums in a cache.
    """
    for block in sch.blocks():
        op = sch.block_op(block)
        pattern = match_block(op)
        if pattern is None or not op.is_reduction:
            continue
        for term in pattern.terms:
            steps = [step_bytes(term, v) for v in pattern.reduce if pattern.extents[v] > 1]
            if any(step >= PAGE_BYTES for step in steps):
                return PAGE_BYTES * 8 // bits
    return TILE_VECTORS * facts.lanes(bits)


def schedule_in_row(
    sch: Schedule, block: Block, depth: int, facts: CpuFacts, group: int | None = None
) -> None:
    """Vectorise one block inside the `depth` row loops."""
    op = sch.block_op(block)
    pattern = match_block(op)
    if pattern is None:
        return
    inner = sch.get_loops(block)[depth:]
    if not inner:
        return
    if not op.is_reduction:
        if is_vector_loop(sch, inner[-1], pattern):
            vectorize_innermost(sch, block, facts, group)
        return
    spatial = [each for each in inner if is_spatial(sch, each, op)]
    reduce = [each for each in inner if each not in spatial]
    if spatial and sch.extent(spatial[-1]) > 1 and is_vector_loop(sch, spatial[-1], pattern):
        _reduce_in_lanes(sch, block, spatial, reduce, facts)
    elif reduce and is_vector_loop(sch, reduce[-1], pattern):
        _reduce_across_lanes(sch, block, reduce, facts, group)


def _reduce_in_lanes(
    sch: Schedule, block: Block, spatial: list[Loop], reduce: list[Loop], facts: CpuFacts
) -> None:
    """Reduce each lane separately: move reduce loops outside of the vector loop."""
    lanes = facts.lanes(element_bits(sch.block_op(block)))
    extent = sch.extent(spatial[-1])
    parts = split_vectors(sch, spatial[-1], lanes, min(-(-extent // lanes), TILE_VECTORS))
    sch.reorder(*spatial[:-1], *reduce, *parts.all)
    set_kinds(sch, parts)
    if reduce:
        sch.decompose_reduction(block, reduce[0])
    if extent <= TILE_VECTORS * lanes and all(sch.extent(each) == 1 for each in spatial[:-1]):
        sch.set_scope(block, "register")


def _reduce_across_lanes(
    sch: Schedule, block: Block, reduce: list[Loop], facts: CpuFacts, group: int | None
) -> None:
    """Reduce along the vectors.

    The order is: into several accumulators, these into one vector, and finally its lanes.
    """
    lanes = facts.lanes(element_bits(sch.block_op(block)))
    *outer, last = reduce
    extent = sch.extent(last)
    few = body_cost(sch.block_op(block)) <= FEW_OPERATIONS
    usual = group_size(extent, lanes, facts, most=ACCUMULATORS if few else None)
    group = usual if group is None else min(group, -(-extent // lanes))
    positions = group * lanes
    if extent != positions:
        chunks, last = sch.split(last, factors=[None, positions])
        outer.append(chunks)
    if any(sch.extent(each) > 1 for each in outer):
        partial = sch.rfactor(last)
        _accumulate(sch, partial, last, lanes, facts)
        last = sch.get_loops(block)[-1]
    if group > 1:
        _, last = sch.split(last, factors=[group, lanes])
        folded = sch.rfactor(last)
        _accumulate(sch, folded, last, lanes, facts)
        last = sch.get_loops(block)[-1]
    sch.decompose_reduction(block, last)
    sch.vectorize(last)


def _accumulate(sch: Schedule, partial: Block, kept: Loop, lanes: int, facts: CpuFacts) -> None:
    """Vectorise a reduction with one result for each iteration of `kept`, in registers."""
    op = sch.block_op(partial)
    reduce = [each for each in sch.get_loops(partial) if not is_spatial(sch, each, op)]
    parts = split_vectors(sch, kept, lanes, sch.extent(kept) // lanes)
    sch.set_scope(partial, "register")
    sch.reorder(*reduce, *parts.all)
    set_kinds(sch, parts)
    sch.decompose_reduction(partial, reduce[0])
    if sch.extent(reduce[-1]) <= short_row(facts):
        sch.unroll(reduce[-1])


def is_vector_loop(sch: Schedule, each: Loop, pattern: BlockPattern) -> bool:
    """Whether a loop can be vectorised: each access is contiguous along it, or constant."""
    variable = sch.loop_op(each).induction_variable
    block = pattern.block
    positions = [i for i, v in enumerate(block.operands) if v is variable]
    moved = [
        i
        for i, binding in enumerate(block.bindings.data.results)
        if not binding.used_dims().isdisjoint(positions)
    ]
    if len(moved) != 1:
        return False
    return all(_along(access, moved[0]) for access in (pattern.store, *pattern.terms))


def _along(access: StridedAccess, variable: int) -> bool:
    return not access.uses(variable) or access.is_strided(variable)
