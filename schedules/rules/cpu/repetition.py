"""Schedule blocks that read each element several times in a row, or alternate between rows.

Examples are nearest-neighbour resizing, and interleaved phases.

    for each tile of columns
      for each of the columns that read the same element   unrolled
        for each lane                                       vectorized
          y[row, column] = x[row floordiv 2, column floordiv 2]

Lanes run along the elements read, so that these are loaded contiguously. The stores have the stride
of the repetition between lanes; `interleave-scatters` turns them into contiguous stores. Rows that
read the same row are written together. If a remainder selects the row that is read, as in
`x[column mod 2, column floordiv 2]`, it is a constant in each unrolled copy.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineExpr

from tcopt.schedules.analysis.patterns import BlockPattern, body_cost, element_bits, total_cost
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import parallelize
from tcopt.schedules.rules.nests import variable_loops

MAX_REPEATS = 8
"""Maximum number of repetitions for which shuffles are cheaper than scalar loads."""


LEAST_LANES = 4
"""Minimum lanes of vectors that are stored together."""

MAX_SCALAR = 24
"""Maximum cost of an element for which a short row is computed by scalar code; excludes functions
of several math operations."""


def schedule_repeated(
    sch: Schedule,
    block: Block,
    pattern: BlockPattern,
    facts: CpuFacts,
    parallel: int | None = None,
) -> bool:
    """Tile a block that repeats elements; return False, without changes, if it does not."""
    loops = variable_loops(sch, block)
    column = pattern.spatial[-1]
    lanes = facts.lanes(element_bits(pattern.block))
    repeats = _repeats(pattern, column)
    if repeats is None or column not in loops or lanes < 2:
        return False
    while lanes > LEAST_LANES and sch.extent(loops[column]) < repeats * lanes:
        # A shorter vector that is filled is better than a masked one.
        lanes //= 2
    work = total_cost(pattern.block)
    if sch.extent(loops[column]) < repeats * lanes:
        return _written_out(sch, loops, column, pattern, facts, parallel)
    tiles, lane, part = sch.split(loops[column], factors=[None, lanes, repeats])
    outer = {v: each for v, each in loops.items() if v != column}
    inner = [part]
    if outer:
        row = max(outer)
        together = _repeats(pattern, row)
        if together is not None and sch.extent(outer[row]) % together == 0:
            outer[row], same = sch.split(outer[row], factors=[None, together])
            inner.insert(0, same)
    order = [outer[v] for v in sorted(outer)]
    sch.reorder(*order, tiles, *inner, lane)
    sch.vectorize(lane)
    for each in inner:
        sch.unroll(each)
    parallelize(sch, order or [tiles], work, facts, parallel)
    return True


def _written_out(
    sch: Schedule,
    loops: dict[int, Loop],
    column: int,
    pattern: BlockPattern,
    facts: CpuFacts,
    parallel: int | None,
) -> bool:
    """Unroll rows that are shorter than vectors, as scalar code.

    A gather would need the same number of loads, and the indices are constants here.
    """
    if body_cost(pattern.block) > MAX_SCALAR:
        return False
    outer = [loops[v] for v in sorted(loops) if v != column]
    sch.reorder(*outer, loops[column])
    sch.unroll(loops[column])
    parallelize(sch, outer, total_cost(pattern.block), facts, parallel)
    return True


def _repeats(pattern: BlockPattern, variable: int) -> int | None:
    """Return the only number by which all loads divide a variable, if it is small; None otherwise.

    None also if a buffer is read without a division too: then it is padding, which repeats elements
    of the border only.
    """
    value = pattern.block.iter_vars[variable]
    divisors: dict[SSAValue, set[frozenset[int]]] = defaultdict(set)
    for term in pattern.terms:
        positions = {i for i, v in enumerate(term.op.indices) if v is value}
        if positions:
            exprs = term.op.map.data.results
            found = frozenset[int]().union(*(_divisors(expr, positions) for expr in exprs))
            divisors[term.op.memref].add(found)
    found = frozenset[int]().union(*chain.from_iterable(divisors.values()))
    if len(found) != 1 or any(len(each) > 1 for each in divisors.values()):
        return None
    (divisor,) = found
    return divisor if 2 <= divisor <= MAX_REPEATS else None


_DIVISIONS = (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod)


def _divisors(expr: AffineExpr, positions: set[int]) -> set[int]:
    """Return the numbers by which an index divides variables; 0 for a non-constant divisor."""
    if not isinstance(expr, AffineBinaryOpExpr) or positions.isdisjoint(expr.used_dims()):
        return set()
    if expr.kind in _DIVISIONS and isinstance(expr.rhs, AffineConstantExpr):
        inner = _divisors(expr.lhs, positions)
        return inner if _is_remainder(expr.lhs, positions) else {expr.rhs.value} | inner
    if expr.kind in (*_DIVISIONS, AffineBinaryOpKind.CeilDiv):
        return {0}
    return _divisors(expr.lhs, positions) | _divisors(expr.rhs, positions)


def _is_remainder(expr: AffineExpr, positions: set[int]) -> bool:
    """Whether an index depends on variables only through remainders.

    These are constants in unrolled loops.
    """
    if not isinstance(expr, AffineBinaryOpExpr) or positions.isdisjoint(expr.used_dims()):
        return positions.isdisjoint(expr.used_dims())
    if expr.kind is AffineBinaryOpKind.Mod:
        return True
    return _is_remainder(expr.lhs, positions) and _is_remainder(expr.rhs, positions)
