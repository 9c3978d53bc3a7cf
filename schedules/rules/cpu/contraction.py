"""Convolutions and matrix products: a register tile of vector accumulators.

The schedule that reaches the FMA units' peak keeps `rows x vectors` accumulators in
registers through the whole reduction:

    parallel over tiles
      accumulators = 0                           rows x vectors, in registers
      for each term of the reduction
        for each row:    broadcast one element
        for each vector: multiply-add
      for each row and vector: epilogue (bias, activation, residual), one store

*Columns* are a variable that is contiguous in the output and in one factor, or absent from
it: vectors lie along it. *Rows* are a variable that the other factor alone depends on, so
that each loaded vector serves all rows. Which variable plays which part follows from the
accesses: a matrix product has its output columns as columns and output rows as rows, a
convolution over NCHW its width as columns and its channels as rows, one over channels in
blocks the channels of a block as columns and the width as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from xdsl.ir import SSAValue

from tcopt.dialects.graph.forms import CONTRACTION
from tcopt.dialects.loop import BlockOp
from tcopt.dialects.loop.analysis import value_ranges
from tcopt.schedules.analysis.dots import Dot, dot_of, lane_dim
from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    access_bytes,
    buffer_bits,
    element_bits,
    left_out_along,
    match_block,
)
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import (
    estimated_ns,
    has_enough_tasks,
    parallelize,
)
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.cpu.tiles import Plan, Space, even_parts, plan_tile
from tcopt.schedules.rules.cpu.written_taps import written_taps
from tcopt.schedules.rules.epilogue import (
    attach_epilogue,
    blocks_beside,
    stores_apart,
    take_epilogue,
)
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.support.affine import linear_sum, sum_range

UNROLLED_PRODUCTS = 108
"""Multiply-adds up to which the innermost reduce loops are written out. Larger tiles gain little,
and where there are 32 registers, loads of several steps grouped by LLVM make them spill."""


@dataclass(frozen=True)
class Roles:
    """Which iteration variable plays which part, by position.

    Attributes:
        columns: vectors lie along it.
        more_columns: a second variable to take vectors from, when `columns` holds only one.
        rows: each vector loaded serves this many rows.
        spans: a second variable for rows, outside of the first.
    """

    columns: int
    more_columns: int | None
    rows: int | None = None
    spans: int | None = None


@schedule_rule(target="cpu", priority=100)
class Contraction:
    """Rule for functions with a block that sums products: convolution, matmul, depthwise."""

    name = "cpu-contraction"
    provides = (CONTRACTION,)

    def apply(self, sch: Schedule, facts: CpuFacts) -> Declined | None:
        patterns = [match_block(sch.block_op(block)) for block in sch.blocks()]
        sums = [p for p in patterns if p is not None and p.is_contraction]
        if len(sums) != 1:
            return Declined(f"{len(sums)} blocks add products of two loaded values, one is wanted")
        dot = dot_of(sums[0], facts.capabilities)
        roles = find_roles(sums[0], facts, dot)
        if isinstance(roles, Declined):
            return roles
        for each in schedule_tiles(sch, sums[0], roles, facts, dot):
            schedule_injective(sch, each, facts)
        return None


def find_roles(pattern: BlockPattern, facts: CpuFacts, dot: Dot | None = None) -> Roles | Declined:
    """Assign the parts, or say why the block has no vector form."""
    spatial = [v for v in reversed(pattern.spatial) if pattern.extents[v] > 1]
    columns = next((v for v in spatial if pattern.store.is_unit(v)), None)
    if columns is None:
        return Declined("no variable is contiguous in the output")
    vectors = [t for t in pattern.terms if t.uses(columns)]
    scalars = [t for t in pattern.terms if not t.uses(columns)]
    if not all(t.is_strided(columns) or t.is_unit(columns, lane_dim(t, dot)) for t in vectors):
        return Declined("an operand is not contiguous along the output's last dimension")
    # Whether a term is left out is asked for a tile, not for each of its rows, or written out.
    left_out = left_out_along(pattern) if pattern.is_contraction else set[int]()
    last = next((v for v in spatial if v in left_out), None)
    if last is not None and written_taps(pattern, last) is not None:
        left_out.remove(last)
    others = [v for v in spatial if v != columns and v not in left_out]
    served = [v for v in others if _reuses(v, vectors, scalars)]
    more = None
    if pattern.extents[columns] <= facts.lanes(element_bits(pattern.block)):
        free = [v for v in others if v not in served[:1]]
        more = next((v for v in free if _reuses(v, scalars, vectors)), None)
    if served:
        return Roles(columns, more, *served[:2])
    return Roles(columns, more, *[v for v in others if v != more][:2])


def _reuses(variable: int, kept: list[StridedAccess], moving: list[StridedAccess]) -> bool:
    """Whether stepping along `variable` keeps what one factor loaded and moves the other."""
    return (
        bool(kept)
        and not any(t.uses(variable) for t in kept)
        and any(t.uses(variable) for t in moving)
    )


def schedule_tiles(
    sch: Schedule, pattern: BlockPattern, roles: Roles, facts: CpuFacts, dot: Dot | None = None
) -> list[Block]:
    """Tile one reduction, and compute its epilogue tile by tile.

    Returns:
        The other blocks, which are left as they are: they compute element by element.
    """
    block = sch.get_block(pattern.block.block_name.data)
    epilogue = take_epilogue(sch, block)
    beside = blocks_beside(sch, block, epilogue)
    lanes = facts.lanes(element_bits(pattern.block))
    terms: list[Loop] = []
    taps = None if roles.rows is None else written_taps(pattern, roles.rows)
    space = _space(pattern, roles, lanes)
    if taps is not None:
        space = replace(space, seen=taps.seen)
    if dot is not None:
        _, each = sch.split(variable_loops(sch, block)[dot.variable], factors=[None, dot.group])
        terms.append(each)
        space = replace(space, steps=space.steps // dot.group)
    plan = plan_tile(space, facts)
    # Where each lane has a row of its own to store to, a few rows are finished before the next.
    rows_last = taps is not None or stores_apart(sch, epilogue)
    outer, inner = _tile(sch, block, pattern, roles, plan, rows_last=rows_last)
    inner += terms
    reduce = sch.get_loops(block)
    reduce = [each for each in reduce if each not in outer and each not in inner]
    sch.reorder(*outer, *reduce, *inner)
    written: list[Loop] = []
    if taps is not None:
        loops = variable_loops(sch, block)
        written = [outer.pop(), *(loops[v] for v in taps.variables if v in loops)]
    outer = _parallelize_tiles(sch, outer, 2 * pattern.work, facts) + written[:1]
    for each in written:
        sch.unroll(each)
    init = sch.decompose_reduction(block, reduce[0])
    if dot is not None:
        sch.tensorize(block, dot.name)
    sch.set_scope(block, "register")
    for each in (block, init):
        _vectorize_tile(
            sch, [part for part in sch.get_loops(each) if part not in (*outer, *reduce)]
        )
    loops = variable_loops(sch, block)
    sliding = [loops[v] for v in pattern.reduce if v in loops and _slides(pattern, roles, v)]
    reduce = [each for each in reduce if each not in written]
    unroll_steps(sch, reduce, plan.tile.accumulators, sliding)
    attach_epilogue(sch, epilogue, outer, lanes)
    return beside


def _space(pattern: BlockPattern, roles: Roles, lanes: int) -> Space:
    """What the tile is chosen for."""
    extents = pattern.extents
    scalars = [t for t in pattern.terms if not t.uses(roles.columns)]
    vectors = [t for t in pattern.terms if t.uses(roles.columns)]
    columns = extents[roles.columns]
    if roles.more_columns is not None:
        columns = lanes * extents[roles.more_columns]
    placed = (roles.columns, roles.more_columns, roles.rows, roles.spans)
    return Space(
        rows=1 if roles.rows is None else extents[roles.rows],
        spans=1 if roles.spans is None else extents[roles.spans],
        columns=columns,
        lanes=lanes,
        element_bytes=max(map(access_bytes, vectors), default=access_bytes(pattern.store)),
        steps=prod(extents[v] for v in pattern.reduce),
        repeats=prod(extents[v] for v in pattern.spatial if v not in placed),
        scalar_bytes=_bytes(scalars),
        vector_bytes=_bytes(vectors),
    )


def _bytes(terms: list[StridedAccess]) -> int:
    return sum(buffer_bits(t.buffer) // 8 for t in terms)


def _tile(
    sch: Schedule,
    block: Block,
    pattern: BlockPattern,
    roles: Roles,
    plan: Plan,
    *,
    rows_last: bool,
) -> tuple[list[Loop], list[Loop]]:
    """Split the roles' loops: the spatial loops between tiles, and those of a tile.

    Args:
        rows_last: whether tiles of rows follow each other before anything else changes.
    """
    loops = variable_loops(sch, block)
    extents, tile = pattern.extents, plan.tile
    inner: list[Loop] = []
    parts = [(roles.rows, "rows", tile.rows)]
    if tile.spans > 1:
        parts.insert(0, (roles.spans, "spans", tile.spans))
    for variable, name, size in parts:
        if variable is not None:
            count = sch.knob(name, _choices(extents[variable], size), default=size)
            loops[variable], part = sch.split(loops[variable], factors=[None, count])
            inner.append(part)
    vectors = sch.knob("vectors", sorted({1, 2, 3, 4, tile.vectors}), default=tile.vectors)
    lane = loops[roles.columns]
    if roles.more_columns is not None:
        del loops[roles.columns]
        rest, part = sch.split(loops[roles.more_columns], factors=[None, vectors])
        loops[roles.more_columns] = rest
        inner.append(part)
    elif extents[roles.columns] > tile.lanes:
        count = min(vectors, ceil(extents[roles.columns] / tile.lanes))
        rest, part, lane = sch.split(lane, factors=[None, count, tile.lanes])
        loops[roles.columns] = rest
        inner.append(part)
    else:
        del loops[roles.columns]
    between = [v for v in _between_tiles(pattern, roles, plan) if v in loops]
    if rows_last and roles.rows in between:
        between.remove(roles.rows)
        between.append(roles.rows)
    return [loops[v] for v in between], [*inner, lane]


def _between_tiles(pattern: BlockPattern, roles: Roles, plan: Plan) -> list[int]:
    """Spatial variables in the order of the loops between tiles.

    Variables that both factors depend on come first: nothing is used again along them.
    """
    scalars = [t for t in pattern.terms if not t.uses(roles.columns)]
    vectors = [t for t in pattern.terms if t.uses(roles.columns)]

    def place(variable: int) -> int:
        in_scalars = any(t.uses(variable) for t in scalars)
        in_vectors = any(t.uses(variable) for t in vectors)
        if in_scalars == in_vectors:
            return 0
        return 1 if in_vectors == plan.columns_outside else 2

    return sorted(pattern.spatial, key=place)


def _choices(extent: int, chosen: int) -> list[int]:
    return sorted({*even_parts(extent, min(28, extent)), chosen})


def _parallelize_tiles(sch: Schedule, outer: list[Loop], work: int, facts: CpuFacts) -> list[Loop]:
    """Make the outermost loops parallel.

    A loop whose last tile is smaller keeps a variable of its own, by which the tail is split
    off. Where those outside of it are too few for the threads, it goes inside of all others;
    or it goes outermost and is divided alone, if it has more iterations than they have.
    """
    tails = [_has_tail(sch, each) for each in outer]
    count = tails.index(True) if True in tails else len(outer)
    time = estimated_ns(sch.loop_op(outer[0]), work, facts) if outer else 0.0
    extents = [sch.extent(each) for each in outer[:count]]
    if count < len(outer) and not has_enough_tasks(extents, time, facts):
        clipped = [each for each, tail in zip(outer, tails, strict=True) if tail]
        whole = [each for each in outer if each not in clipped]
        longest = max(clipped, key=sch.extent)
        if sch.extent(longest) > prod(map(sch.extent, whole)):
            whole = [longest]
        count = len(whole)
        order = [*whole, *(each for each in outer if each not in whole)]
        if order != outer:
            sch.reorder(*order)
        outer = order
    return [*parallelize(sch, outer[:count], work, facts), *outer[count:]]


def _has_tail(sch: Schedule, each: Loop) -> bool:
    """Whether the domain of a block ends inside of the loop's last iteration."""
    variable = sch.loop_op(each).induction_variable
    return any(
        _is_clipped(sch.block_op(block), variable)
        for block in sch.blocks()
        if each in sch.get_loops(block)
    )


def _is_clipped(block: BlockOp, variable: SSAValue) -> bool:
    operands = list(block.operands_)
    ranges = value_ranges(operands)
    for binding, extent in zip(block.bindings.data.results, block.domain, strict=True):
        used = {operands[d] for d in binding.used_dims()}
        if variable in used and sum_range(linear_sum(binding, ranges), ranges)[1] >= extent:
            return True
    return False


def _slides(pattern: BlockPattern, roles: Roles, variable: int) -> bool:
    """Whether a row broadcasts along a reduce variable what the next rows broadcast as well."""
    if roles.rows is None:
        return False
    for term in pattern.terms:
        rows, steps = term.steps[roles.rows], term.steps[variable]
        if term.uses(roles.columns) or rows is None or steps is None:
            continue
        for row, step in zip(rows, steps, strict=True):
            if row and step and row % step == 0 and row // step < pattern.extents[variable]:
                return True
    return False


def unroll_steps(
    sch: Schedule, reduce: list[Loop], accumulators: int, sliding: Sequence[Loop] = ()
) -> None:
    """Write out innermost reduce loops, as far as the code stays short.

    Where rows slide along a loop, a step uses again what earlier ones have broadcast. Written
    out, that is kept for it, though registers are full of accumulators.
    """
    products = accumulators
    for each in reversed(reduce):
        products *= sch.extent(each)
        if products > UNROLLED_PRODUCTS or each in sliding:
            return
        sch.unroll(each)


def _vectorize_tile(sch: Schedule, loops: list[Loop]) -> None:
    """Vectorise the innermost of a tile's loops and unroll those around it."""
    sch.vectorize(loops[-1])
    for each in loops[:-1]:
        sch.unroll(each)
