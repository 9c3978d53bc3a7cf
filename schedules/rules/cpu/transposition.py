"""Blocks that read along another variable than they write: tiles of both variables.

    for each tile of rows and columns
      for each column of the tile      unrolled
        for each row of the tile       vectorized
          y[column, row] = x[row, column]

After vectorisation, the gathers read adjacent columns; they become loads of rows and a
transposition in registers.
"""

from __future__ import annotations

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr

from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, element_bits, total_cost
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import parallelize
from tcopt.schedules.rules.nests import variable_loops


def schedule_transposed(
    sch: Schedule,
    block: Block,
    pattern: BlockPattern,
    facts: CpuFacts,
    parallel: int | None = None,
) -> bool:
    """Tile a block that is a transposition; return False, without changes, if it is not."""
    loops = variable_loops(sch, block)
    written = pattern.spatial[-1]
    found = _read_along(pattern, written)
    if found is None or written not in loops or found[0] not in loops:
        return False
    variable, divisor = found
    lanes = facts.lanes(element_bits(pattern.block))
    extent, columns = sch.extent(loops[written]), sch.extent(loops[variable])
    if lanes < 2 or min(extent, divisor or columns) < 2:
        return False
    work = total_cost(pattern.block)
    outer = dict(loops)
    tile: list[Loop] = []
    if divisor is not None:
        outer[variable], column = sch.split(loops[variable], factors=[None, divisor])
        columns = divisor
    else:
        column = outer.pop(variable)
    between: list[Loop] = []
    if extent < lanes // 2 <= columns:
        # A narrow row does not fill a vector: load whole vectors, and scatter them.
        tile = [outer.pop(written), column]
        if columns > lanes:
            part, tile[1] = sch.split(column, factors=[None, lanes])
            between = [part]
    else:
        row = outer.pop(written)
        if extent > lanes:
            part, row = sch.split(row, factors=[None, lanes])
            between = [part]
        if columns > lanes:
            part, column = sch.split(column, factors=[None, lanes])
            between = [part, *between]
        tile = [column, row]
    order = [*(outer[v] for v in sorted(outer)), *between]
    sch.reorder(*order, *tile)
    sch.vectorize(tile[1])
    sch.unroll(tile[0])
    if order:
        parallelize(sch, order, work, facts, parallel)
    return True


def _read_along(pattern: BlockPattern, written: int) -> tuple[int, int | None] | None:
    """Return the variable along which a load is contiguous, if it is not along the written one.

    Also return the number of contiguous elements if that is only a part of the variable's range, as
    in blocks of channels.
    """
    for term in pattern.terms:
        if not term.uses(written) or term.is_strided(written):
            continue
        for variable in pattern.spatial:
            if variable != written and pattern.extents[variable] > 1:
                if term.is_unit(variable):
                    return variable, None
                if (size := _blocked(term, pattern, variable)) is not None:
                    return variable, size
    return None


def _blocked(term: StridedAccess, pattern: BlockPattern, variable: int) -> int | None:
    """Return `s` if the last index of a load is `variable mod s`; None otherwise."""
    match term.op.map.data.results[-1]:
        case AffineBinaryOpExpr(
            kind=AffineBinaryOpKind.Mod,
            lhs=AffineDimExpr() as dim,
            rhs=AffineConstantExpr() as size,
        ) if term.op.indices[dim.position] is pattern.block.iter_vars[variable]:
            return size.value
        case _:
            return None
