"""Convolutions and matrix products: a register tile of vector accumulators.

The schedule that reaches the FMA units' peak keeps `rows x vectors` accumulators in
registers through the whole reduction:

    parallel over tiles
      accumulators = 0                           rows x vectors, in registers
      for each term of the reduction
        for each row:    broadcast one element
        for each vector: multiply-add
      for each row and vector: epilogue (bias, activation, residual), one store

*Columns* are a variable that is contiguous in the output and in one factor, or absent from that
factor: vectors run along it. *Rows* are a variable on which only the other factor depends, so that
each loaded vector is used for all rows. The accesses determine these roles: a matrix product has
output columns as columns and output rows as rows, an NCHW convolution its width as columns and its
channels as rows, a convolution with blocked channels the channels of a block as columns and the
width as rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.schedules.analysis.dots import Dot, dot_of, lane_dim
from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    left_out_along,
    match_block,
)
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.deep_reduction import divide, split_chunks
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import run_parallel
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.cpu.matmul import accumulate
from tcopt.schedules.rules.cpu.tile_space import TileRoles, TileSpace, vector_lanes
from tcopt.schedules.rules.cpu.written_taps import written_taps
from tcopt.schedules.rules.epilogue import attach_epilogue, blocks_beside, take_epilogue
from tcopt.schedules.rules.nests import variable_loops, vectorize_tile
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice


@schedule_rule(target="cpu", priority=100)
class Contraction:
    """Rule for functions with one block that sums products: convolution, matmul, depthwise."""

    name = "cpu-contraction"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: CpuFacts) -> TileSpace | Declined:
        patterns = [match_block(sch.block_op(block)) for block in sch.blocks()]
        sums = [p for p in patterns if p is not None and p.is_contraction]
        if len(sums) != 1:
            return Declined(f"{len(sums)} blocks add products of two loaded values, one is wanted")
        dot = dot_of(sums[0], facts.capabilities)
        roles = find_roles(sums[0], facts, dot)
        return roles if isinstance(roles, Declined) else TileSpace(sch, sums[0], roles, facts, dot)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: TileSpace, choice: Choice
    ) -> Declined | None:
        for each in schedule_tiles(sch, space, choice):
            schedule_injective(sch, each, facts)
        return None


def find_roles(
    pattern: BlockPattern, facts: CpuFacts, dot: Dot | None = None
) -> TileRoles | Declined:
    """Assign roles to the variables, or decline if the block has no vector form."""
    spatial = [v for v in reversed(pattern.spatial) if pattern.extents[v] > 1]
    columns = next((v for v in spatial if pattern.store.is_unit(v)), None)
    if columns is None:
        return Declined("no variable is contiguous in the output")
    vectors = [t for t in pattern.terms if t.uses(columns)]
    scalars = [t for t in pattern.terms if not t.uses(columns)]
    if not all(t.is_strided(columns) or t.is_unit(columns, lane_dim(t, dot)) for t in vectors):
        return Declined("an operand is not contiguous along the output's last dimension")
    # The check for skipped terms is made per tile, not per row, unless it is unrolled.
    left_out = left_out_along(pattern) if pattern.is_contraction else set[int]()
    last = next((v for v in spatial if v in left_out), None)
    if last is not None and written_taps(pattern, last) is not None:
        left_out.remove(last)
    others = [v for v in spatial if v != columns and v not in left_out]
    served = [v for v in others if _reuses(v, vectors, scalars)]
    more = None
    if pattern.extents[columns] <= vector_lanes(pattern, facts, dot):
        free = [v for v in others if v not in served[:1]]
        more = next((v for v in free if _reuses(v, scalars, vectors)), None)
    if served:
        return TileRoles(columns, more, *served[:2])
    return TileRoles(columns, more, *[v for v in others if v != more][:2])


def _reuses(variable: int, kept: list[StridedAccess], moving: list[StridedAccess]) -> bool:
    """Whether a step along `variable` reuses the loaded `kept` factor and moves the other."""
    return (
        bool(kept)
        and not any(t.uses(variable) for t in kept)
        and any(t.uses(variable) for t in moving)
    )


def schedule_tiles(sch: Schedule, space: TileSpace, choice: Choice) -> list[Block]:
    """Tile one reduction, and compute its epilogue tile by tile.

    Returns:
        The other, pointwise blocks, which are not scheduled.
    """
    pattern, dot, taps = space.pattern, space.dot, space.taps
    block = sch.get_block(pattern.block.block_name.data)
    epilogue = take_epilogue(sch, block)
    beside = blocks_beside(sch, block, epilogue)
    terms: list[Loop] = []
    if dot is not None:
        _, each = sch.split(variable_loops(sch, block)[dot.variable], factors=[None, dot.group])
        terms.append(each)
    between, inner = _tile(sch, block, space, choice)
    inner += terms
    reduce = sch.get_loops(block)
    reduce = [each for each in reduce if each not in between.values() and each not in inner]
    if choice["parts"] > 1:
        division = divide(space, choice)
        loops = _Loops(*split_chunks(sch, between, division), reduce, inner)
        _accumulate_in_parts(sch, block, space, choice, epilogue, loops)
        return beside
    outer = [between[v] for v in space.order(choice) if v in between]
    sch.reorder(*outer, *reduce, *inner)
    written: list[Loop] = []
    if taps is not None:
        loops = variable_loops(sch, block)
        written = [outer.pop(), *(loops[v] for v in taps.variables if v in loops)]
    outer = run_parallel(sch, outer, choice["parallel"], space.time, space.facts) + written[:1]
    for each in written:
        sch.unroll(each)
    init = sch.decompose_reduction(block, reduce[0])
    if dot is not None:
        sch.tensorize(block, dot.name)
    sch.set_scope(block, "register")
    for each in (block, init):
        vectorize_tile(sch, [part for part in sch.get_loops(each) if part not in (*outer, *reduce)])
    write_out(sch, [each for each in reduce if each not in written], choice)
    attach_epilogue(sch, epilogue, outer, space.lanes)
    return beside


@dataclass(frozen=True)
class _Loops:
    """Loops of a contraction whose reduction is divided into parts.

    Attributes:
        outer: loops outside of the loop over the parts.
        tiles: loops between tiles, inside of it.
        reduce: loops of the reduction.
        inner: loops of a tile.
    """

    outer: list[Loop]
    tiles: list[Loop]
    reduce: list[Loop]
    inner: list[Loop]


def _accumulate_in_parts(
    sch: Schedule, block: Block, space: TileSpace, choice: Choice, epilogue: Block, loops: _Loops
) -> None:
    """Process all tiles of a chunk for one part of the reduction before the next part.

    Each part leaves a partial result; rows of these are summed after the last part.
    """
    tiles, inner = loops.tiles, loops.inner
    part, rest = sch.split(loops.reduce[0], factors=[choice["parts"], None])
    reduce = [rest, *loops.reduce[1:]]
    sch.reorder(*loops.outer, part, *tiles, *reduce, *inner)
    count = min(choice["parallel"], len(loops.outer))
    outer = run_parallel(sch, loops.outer, count, space.time, space.facts)
    vectors = [each for each in inner[-space.column_loops :] if sch.extent(each) > 1]
    partial = sch.rfactor(part)
    store = sch.cache_write(partial, "register")
    around = [*outer, part, *tiles]
    init = sch.decompose_reduction(partial, reduce[0])
    sch.set_scope(partial, "register")
    for each in (partial, init):
        vectorize_tile(sch, [own for own in sch.get_loops(each) if own not in (*around, *reduce)])
    write_out(sch, reduce, choice)
    attach_epilogue(sch, store, around, space.lanes)
    *rows, part = sch.get_loops(block)[len(outer) :]
    rows, vectors = rows[: -len(vectors)], rows[-len(vectors) :]
    sch.reorder(*rows, part, *vectors)
    accumulate(sch, block, [*outer, *rows], [part], epilogue, space.lanes)


def _tile(
    sch: Schedule, block: Block, space: TileSpace, choice: Choice
) -> tuple[dict[int, Loop], list[Loop]]:
    """Split the loops of rows and columns.

    Returns:
        The spatial loops between tiles, by variable, and the loops of a tile.
    """
    loops = variable_loops(sch, block)
    pattern, roles, lanes = space.pattern, space.roles, space.lanes
    extents = pattern.extents
    inner: list[Loop] = []
    parts = [(roles.rows, choice["rows"])]
    if choice["spans"] > 1:
        parts.insert(0, (roles.spans, choice["spans"]))
    for variable, size in parts:
        if variable is not None:
            loops[variable], part = sch.split(loops[variable], factors=[None, size])
            inner.append(part)
    lane = loops[roles.columns]
    if roles.more_columns is not None:
        del loops[roles.columns]
        factors = [None, choice["vectors"]]
        loops[roles.more_columns], part = sch.split(loops[roles.more_columns], factors)
        inner.append(part)
    elif extents[roles.columns] > lanes:
        factors = [None, choice["vectors"], lanes]
        loops[roles.columns], part, lane = sch.split(lane, factors)
        inner.append(part)
    else:
        del loops[roles.columns]
    return {v: each for v, each in loops.items() if v in pattern.spatial}, [*inner, lane]


def write_out(sch: Schedule, reduce: list[Loop], choice: Choice) -> None:
    """Unroll the chosen number of innermost reduce loops, and of iterations of the next one."""
    count = choice["unroll"]
    for each in reversed(reduce[len(reduce) - count :]):
        sch.unroll(each)
    if choice["steps"] > 1:
        _, step = sch.split(reduce[len(reduce) - count - 1], factors=[None, choice["steps"]])
        sch.unroll(step)
