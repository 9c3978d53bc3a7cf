"""Transforms by constant tables that no other rule accepts: one nest for each stage.

    for each outer index          parallel
      for each row of the table     unrolled, so that its entries fold
        for each lane               vectorized

Intermediate results of the stages are stored in memory.
"""

from __future__ import annotations

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineExpr

from tcopt.dialects import loop
from tcopt.dialects.table import ScaleOp
from tcopt.schedules.analysis.patterns import match_block, scales, total_cost
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.contraction import find_roles, schedule_tiles
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.fallback import parallelize_spatial
from tcopt.schedules.rules.cpu.granularity import parallelize
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.cpu.reduction import is_vector_loop
from tcopt.schedules.rules.cpu.tile_space import TileSpace
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.closed import Closed
from tcopt.schedules.spaces.space import Choice


@schedule_rule(target="cpu", priority=105)
class Transforms:
    """Rule for functions with transforms by constant tables that no other rule accepts."""

    name = "cpu-transforms"

    def space(self, sch: Schedule, facts: CpuFacts) -> TileSpace | Closed | Declined:
        """Return the tiles of the contraction, if there is exactly one."""
        if not any(scales(sch.block_op(block)) for block in sch.blocks()):
            return Declined("no block multiplies by a constant table", quiet=True)
        sums = open_sums(sch, facts)
        return sums[0] if len(sums) == 1 else Closed()

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: TileSpace | Closed, choice: Choice
    ) -> Declined | None:
        blocks = sch.blocks()
        done = [block for block in blocks if scales(sch.block_op(block))]
        for block in list(done):
            write_out_transform(sch, block, facts)
        for each in open_sums(sch, facts):
            chosen = choice if isinstance(space, TileSpace) else each.default()
            beside = schedule_tiles(sch, each, chosen)
            done += [block for block in sch.blocks() if block not in beside]
        for block in blocks:
            if block in done:
                continue
            if sch.block_op(block).is_reduction:
                parallelize_spatial(sch, block, facts)
            else:
                schedule_injective(sch, block, facts)
        return None


def open_sums(sch: Schedule, facts: CpuFacts) -> list[TileSpace]:
    """Return the tile spaces of the contractions, except those that multiply by tables."""
    found: list[TileSpace] = []
    for block in sch.blocks():
        pattern = match_block(sch.block_op(block))
        if scales(sch.block_op(block)) or pattern is None or not pattern.is_contraction:
            continue
        roles = find_roles(pattern, facts)
        if not isinstance(roles, Declined):
            found.append(TileSpace(sch, pattern, roles, facts))
    return found


def write_out_transform(sch: Schedule, block: Block, facts: CpuFacts) -> None:
    """Unroll the loops that select table entries; vectorise if possible."""
    op = sch.block_op(block)
    pattern = match_block(op)
    work = total_cost(op)
    loops = variable_loops(sch, block)
    rows: list[Loop] = []
    for variable, extent in _table_variables(op).items():
        if (each := loops.pop(variable, None)) is None:
            continue
        if extent is not None and extent < sch.extent(each):
            loops[variable], each = sch.split(each, [None, extent])
        rows.append(each)
    outer = [loops[variable] for variable in sorted(loops)]
    lane = None
    if outer and pattern is not None and is_vector_loop(sch, outer[-1], pattern):
        lane = outer.pop()
        if sch.extent(lane) > (lanes := facts.lanes()):
            part, lane = sch.split(lane, [None, lanes])
            outer.append(part)
    sch.reorder(*outer, *rows, *([] if lane is None else [lane]))
    if lane is not None:
        sch.vectorize(lane)
    for each in rows:
        sch.unroll(each)
    parallelize(sch, outer, work, facts)


def _table_variables(block: loop.BlockOp) -> dict[int, int | None]:
    """Return the variables that select an entry of a table, with the period of the entries.

    The period is None if entries do not repeat.
    """
    found: dict[int, int | None] = {}
    for op in block.body.block.ops:
        if not isinstance(op, ScaleOp):
            continue
        index = op.index.owner
        values = index.indices if isinstance(index, loop.IndexOp) else [op.index]
        expr = index.map.data.results[0] if isinstance(index, loop.IndexOp) else None
        for position, value in enumerate(values):
            if value in block.iter_vars:
                period = None if expr is None else _period(expr, position)
                found.setdefault(block.iter_vars.index(value), period)
    return found


def _period(expr: AffineExpr, position: int) -> int | None:
    """Return `m` if a variable occurs in a remainder by `m`."""
    if not isinstance(expr, AffineBinaryOpExpr) or position not in expr.used_dims():
        return None
    if expr.kind is AffineBinaryOpKind.Mod and isinstance(expr.rhs, AffineConstantExpr):
        return expr.rhs.value
    return _period(expr.lhs, position) or _period(expr.rhs, position)
