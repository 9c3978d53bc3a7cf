"""Blocks that read each element several times in a row, or one of several rows in turn:
resizing to nearest neighbours, and weaving phases.

    for each tile of columns
      for each of the columns that read the same element   unrolled
        for each lane                                       vectorized
          y[row, column] = x[row floordiv 2, column floordiv 2]

Lanes lie along the elements read, so that these are loaded as they lie in memory. What is
written has the step of the repetition from lane to lane, and `interleave-scatters` makes
contiguous stores of it. Rows that read the same row are written together. Where a remainder
says which row is read, as `x[column mod 2, column floordiv 2]` does, it is a constant in each.
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
"""Elements of one vector for each element read, up to which shuffles are cheaper than reading
one at a time."""


LEAST_LANES = 4
"""Lanes of the shortest vectors that are stored together."""

MAX_SCALAR = 24
"""Operations for an element up to which those of a short row are computed one by one: no
mathematical functions of several."""


def schedule_repeated(
    sch: Schedule,
    block: Block,
    pattern: BlockPattern,
    facts: CpuFacts,
    parallel: int | None = None,
) -> bool:
    """Tile a block that repeats elements; False, and nothing done, if it does not."""
    loops = variable_loops(sch, block)
    column = pattern.spatial[-1]
    lanes = facts.lanes(element_bits(pattern.block))
    repeats = _repeats(pattern, column)
    if repeats is None or column not in loops or lanes < 2:
        return False
    while lanes > LEAST_LANES and sch.extent(loops[column]) < repeats * lanes:
        # A part of a vector that is filled is better than one that is masked.
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
    """Move the elements of a row shorter than vectors one by one, in code of their own.

    What a vector would gather is as many loads, and which element is read where is known here.
    """
    if body_cost(pattern.block) > MAX_SCALAR:
        return False
    outer = [loops[v] for v in sorted(loops) if v != column]
    sch.reorder(*outer, loops[column])
    sch.unroll(loops[column])
    parallelize(sch, outer, total_cost(pattern.block), facts, parallel)
    return True


def _repeats(pattern: BlockPattern, variable: int) -> int | None:
    """The number that all loads divide a variable by, if it is one and small.

    None where a buffer is also read without a division: borders repeat elements of it, most
    elements are read once.
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
    """What an index divides any of some variables by; 0 for what is not a number."""
    if not isinstance(expr, AffineBinaryOpExpr) or positions.isdisjoint(expr.used_dims()):
        return set()
    if expr.kind in _DIVISIONS and isinstance(expr.rhs, AffineConstantExpr):
        inner = _divisors(expr.lhs, positions)
        return inner if _is_remainder(expr.lhs, positions) else {expr.rhs.value} | inner
    if expr.kind in (*_DIVISIONS, AffineBinaryOpKind.CeilDiv):
        return {0}
    return _divisors(expr.lhs, positions) | _divisors(expr.rhs, positions)


def _is_remainder(expr: AffineExpr, positions: set[int]) -> bool:
    """Whether an index depends on variables by remainders of theirs alone, which are constants
    where these are written out."""
    if not isinstance(expr, AffineBinaryOpExpr) or positions.isdisjoint(expr.used_dims()):
        return positions.isdisjoint(expr.used_dims())
    if expr.kind is AffineBinaryOpKind.Mod:
        return True
    return _is_remainder(expr.lhs, positions) and _is_remainder(expr.rhs, positions)
