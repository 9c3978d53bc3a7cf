"""Limits of loops whose last iterations do nothing, because a size is less than its upper bound.

loop.for %io = 0 to 64 {                         %0 = loop.index [(%s0 + 7) floordiv 8]
  loop.guard ([%s0 - %io * 8 - 1] in 512) {  ->  loop.for %io = 0 to 64 limit %0 {
    ...                                            ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import loop
from tcopt.dialects.loop.structure import LIMITED_KINDS, is_size, is_uniform, may_have_limit
from tcopt.passes.loop.analysis.effects import has_effect
from tcopt.passes.loop.analysis.indexing import Knowledge, ValueSum, value_sum
from tcopt.passes.loop.blocks.guards import threads_meet
from tcopt.support.arithmetic.affine import (
    Atom,
    Dim,
    FloorDiv,
    LinearSum,
    dims_of,
    linear_sum,
    sum_range,
    to_expr,
)
from tcopt.support.ir.quick_ir import walk_ops

_Key = tuple[int, int, ValueSum]
"""A bound of a loop's variable: its factor, the number of iterations that share a value of its
quotient, and the other terms without their constant."""


_Bound = tuple[LinearSum, list[SSAValue]]
"""The sum that bounds a variable times its factor, over operands."""

_Bounds = dict[_Key, _Bound]


def limit_loops(function: loop.FuncOp) -> bool:
    """Limit loops to the iterations in which guards over sizes may hold.

    They are serial, parallel, or over blocks of threads. The number of blocks is computed before a
    launch, so it depends on sizes alone.

    Returns:
        Whether a loop was limited.
    """
    known = Knowledge.of(function)
    if not known.sizes:
        return False
    loops = [op for op in walk_ops(function) if isinstance(op, loop.ForOp)]
    for op in loops:
        known.enter_loop(op)
    limited = [_limit(op, known) for op in loops]
    return any(limited)


def _limit(op: loop.ForOp, known: Knowledge) -> bool:
    if not may_have_limit(op) or op.limit is not None or op.trip_count < 2:
        return False
    # Buffers of an iteration are not read by others.
    private = {each.result for each in walk_ops(op) if isinstance(each, loop.AllocOp)}
    bounds = _bounds_in(op.body.block, op, private, known)
    for (factor, shared, _), (total, operands) in bounds.items():
        last = to_expr(total)
        # The last iteration is the greatest i with factor * (i floordiv shared) <= last.
        count = (last // factor + 1) * shared
        if known.bounds(count, operands)[0] >= op.trip_count:
            continue
        counts, values = known.simplify([count], operands)
        if op.axis is not None and not all(map(is_size, values)):
            continue
        if not all(map(is_uniform, values)) and threads_meet(op):
            continue
        place = _outermost_place(op, values)
        if place is None:
            continue
        if counts.results == (AffineDimExpr(0),):
            op.limit = values[0]
        else:
            index = loop.IndexOp(counts, values)
            Rewriter.insert_op(index, InsertPoint.before(place))
            op.limit = index.result
        return True
    return False


def _bounds_in(
    block: Block, op: loop.ForOp, private: Collection[SSAValue], known: Knowledge
) -> _Bounds:
    """Return the bounds of a loop's variable beyond which nothing in a block has an effect."""
    parts: list[_Bounds] = []
    for inner in block.ops:
        if not has_effect(inner, private):
            continue
        found: _Bounds = {}
        if isinstance(inner, loop.ForOp | loop.GuardOp):
            found = _bounds_in(inner.body.block, op, private, known)
        if isinstance(inner, loop.GuardOp):
            for key, bound in _bounds(inner, op, known):
                known_bound = found.setdefault(key, bound)
                found[key] = min(known_bound, bound, key=_constant)
        parts.append(found)
    if not parts:
        return {}
    shared = [key for key in parts[0] if all(key in part for part in parts)]
    return {key: max((part[key] for part in parts), key=_constant) for key in shared}


def _constant(bound: _Bound) -> int:
    return bound[0].constant


def _bounds(guard: loop.GuardOp, op: loop.ForOp, known: Knowledge) -> Iterator[tuple[_Key, _Bound]]:
    """Yield upper bounds of a loop's variable, over values from outside of the loop, that a guard's
    conditions imply: the variable times its factor is not more than a sum."""
    operands = list(guard.indices)
    inside = _values_inside(op)
    ranges = known.ranges_of(operands)
    variable = op.induction_variable
    for expr in guard.map.data.results:
        total = linear_sum(expr, ranges)
        own: list[tuple[Atom, int]] = []
        varying: list[tuple[Atom, int]] = []
        rest: list[tuple[Atom, int]] = []
        for term in total.terms:
            used = {operands[dim] for dim in dims_of(term[0])}
            kind = own if variable in used else varying if used & inside else rest
            kind.append(term)
        if (
            len(own) != 1
            or own[0][1] >= 0
            or not any(
                operands[dim] in known.sizes.values() for atom, _ in rest for dim in dims_of(atom)
            )
        ):
            continue
        ((atom, factor),) = own
        shared = _shared_iterations(atom)
        if shared is None:
            continue
        _, most = sum_range(LinearSum(tuple(varying), 0), ranges)
        bound = LinearSum(tuple(rest), total.constant + most)
        key = -factor, shared, value_sum(LinearSum(tuple(rest), 0), operands)
        yield key, (bound, operands)


def _shared_iterations(atom: Atom) -> int | None:
    """Return n if a term is the loop's variable `floordiv n`, and 1 if it is the variable."""
    match atom:
        case Dim():
            return 1
        case FloorDiv(LinearSum(terms=((Dim(), 1),), constant=0), divisor):
            return divisor
        case _:
            return None


def _values_inside(op: loop.ForOp) -> set[SSAValue]:
    """Return the values that are defined in a loop, other than its variable."""
    values: set[SSAValue] = set()
    for inner in walk_ops(op):
        values.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                values.update(block.args)
    values.discard(op.induction_variable)
    return values


def _outermost_place(op: loop.ForOp, values: Sequence[SSAValue]) -> Operation | None:
    """Return the outermost op at or around a loop after the definitions of values; None if these
    depend on the iterations of unrolled or vectorised loops."""
    place: Operation = op
    owners = {_block_of(value) for value in values}
    while (block := place.parent_block()) is not None and block not in owners:
        parent = block.parent_op()
        if parent is None or isinstance(parent, loop.FuncOp):
            break
        place = parent
    for value in values:
        around = loop.loop_of(value)
        if around is not None and around.loop_kind not in (*LIMITED_KINDS, loop.LoopKind.THREAD):
            return None
    return place


def _block_of(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent_block()
