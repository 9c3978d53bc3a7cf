"""Splitting of loops at the iterations at which a select between reads, or a read's default,
changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import is_side_effect_free

from tcopt.dialects import loop
from tcopt.dialects.arith_ import CmpiOp, SelectOp
from tcopt.dialects.loop.structure import LoopKindAttr
from tcopt.dialects.size import extents_of
from tcopt.passes.loop.analysis.indexing import IndexedOp, Knowledge, simplify_access
from tcopt.passes.loop.analysis.surroundings import knowledge_at, ranges_inside
from tcopt.passes.loop.edits.dead_code import erase_dead_ops
from tcopt.passes.loop.edits.ranges import split_off
from tcopt.support.arithmetic.affine import (
    Dim,
    LinearSum,
    linear_sum,
    substitute,
    to_expr,
    used_dims,
)
from tcopt.support.arithmetic.intervals import Range, weighted_sum
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.ir.quick_ir import walk_ops
from tcopt.support.ir.rewriting import rewrite

_MOST_PARTS = 5
"""Maximum number of loops that one loop becomes."""
_MOST_OPS = 400
"""Maximum number of copied operations, to limit code size."""
_KINDS = (loop.LoopKind.SERIAL, loop.LoopKind.UNROLLED)


@dataclass(frozen=True)
class _Negative:
    """The condition that a sum of index values is negative."""

    expr: AffineExpr
    operands: tuple[SSAValue, ...]


class FoldChoice(RewritePattern):
    """Fold a select whose condition is decided by the enclosing loops.

    loop.for %i = 0 to 8 {
      %0 = loop.index [%i - 8]
      %1 = arith.cmpi slt, %0, %zero : index
      %2 = arith.select %1, %a, %b : f32
      loop.store %2, %y[%i] : memref<8xf32>
    ->
    loop.for %i = 0 to 8 {
      loop.store %a, %y[%i] : memref<8xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter) -> None:
        if not _has_condition(op.cond):
            return
        holds = _decide(op.cond, knowledge_at(op))
        if holds is not None:
            rewriter.replace(op, [], [op.lhs if holds else op.rhs])


@dataclass(frozen=True)
class SplitChoicesPass(ModulePass):
    """Split loops where a select between reads changes, so that few iterations evaluate it.

    A pad, or a concatenation along the rows, selects for each element, while most vectors of a row
    are entirely in one part. A vector whose lanes select differently is not changed, unless its
    loads have quotients in their indices: then its lanes are unrolled.

        loop.for %j = 0 to 15 {
          loop.for %l = 0 to 16 vectorized {
            %i = loop.index [%j * 16 + %l - 3]
            %c = arith.cmpi slt, %i, %zero : index
            %a = loop.load %x[%j * -16 - %l + 3] else 0.0 : memref<240xf32>
            %b = loop.load %x[%j * 16 + %l - 3] else 0.0 : memref<240xf32>
            %v = arith.select %c, %a, %b : f32
            loop.store %v, %y[%j * 16 + %l] : memref<240xf32>
        ->
        loop.for %j = 0 to 1 {
          ...
        loop.for %j = 0 to 14 {
          loop.for %l = 0 to 16 vectorized {
            %b = loop.load %x[%j * 16 + %l + 13] : memref<240xf32>
            loop.store %b, %y[%j * 16 + %l + 16] : memref<240xf32>

    The pass runs after `lower-blocks`.
    """

    name = "split-choices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, loop.FuncOp) and any(_choices(function)):
                rewrite(function, [SplitLoop()])
                rewrite(function, [FoldChoice()], inner_first=True)
                for each in tuple(walk_ops(function)):
                    if isinstance(each, IndexedOp):
                        simplify_access(each, knowledge_at(each))
                erase_dead_ops(function.body.block)


class SplitLoop(RewritePattern):
    """Split a loop where a condition of a select in it becomes decided or undecided.

    loop.for %i = 0 to 12 {
      %c = arith.cmpi slt, %i, %eight : index
      %v = arith.select %c, %a, %b : f32
    ->
    loop.for %i = 0 to 8 {
      %c = arith.cmpi slt, %i, %eight : index
      %v = arith.select %c, %a, %b : f32
    }
    loop.for %i = 0 to 4 {
      %0 = loop.index [%i + 8]
      %c = arith.cmpi slt, %0, %eight : index
      %v = arith.select %c, %a, %b : f32
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.ForOp, rewriter: PatternRewriter) -> None:
        if op.axis is not None or op.trip_count < 2:
            return
        if op.loop_kind is loop.LoopKind.VECTORIZED:
            if not _divides(op):
                return
        elif op.loop_kind not in _KINDS:
            return
        places = _places_to_cut(op)
        size = sum(1 for _ in walk_ops(op))
        if not places or len(places) >= _MOST_PARTS or size * len(places) > _MOST_OPS:
            return
        if op.loop_kind is loop.LoopKind.VECTORIZED:
            op.kind = LoopKindAttr(loop.LoopKind.UNROLLED)
        known = knowledge_at(op)
        for place in reversed(places):
            for each in walk_ops(split_off(op, place, known)):
                rewriter.notify_op_modified(each)
        rewriter.notify_op_modified(op)


def _divides(op: loop.ForOp) -> bool:
    """Whether a load in a loop has an index that divides the loop's variable."""
    known = Knowledge(knowledge_at(op).ranges | ranges_inside(op).ranges)
    for load in walk_ops(op):
        if not isinstance(load, loop.LoadOp) or op.induction_variable not in load.indices:
            continue
        variable = load.indices.index(op.induction_variable)
        for expr in load.map.data.results:
            total = known.linear(expr, load.indices)
            quotients = tuple(term for term in total.terms if not isinstance(term[0], Dim))
            if variable in used_dims(to_expr(LinearSum(quotients, 0))):
                return True
    return False


def _places_to_cut(op: loop.ForOp) -> list[int]:
    """Return the first iterations of the later parts, if most iterations then select nothing."""
    trips, places = op.trip_count, set[int]()
    undecided = set[Range]()
    around, inside = knowledge_at(op), ranges_inside(op)
    for choice in _choices(op):
        for condition in _conditions_of(choice):
            found = _border(condition, op, around, inside)
            if found is not None:
                first, end = (min(max(place, 0), trips) for place in found)
                places |= {first, end}
                undecided.add((first, end))
    open_ = {trip for first, end in undecided for trip in range(first, end)}
    if 2 * len(open_) > trips:
        return []
    return sorted(places - {0, trips})


def _border(
    condition: _Negative, op: loop.ForOp, around: Knowledge, inside: Knowledge
) -> Range | None:
    """Return the range of iterations in which a condition is undecided, or None if the loop does
    not affect it."""
    known = Knowledge(around.ranges | inside.ranges)
    total = linear_sum(condition.expr, known.ranges_of(condition.operands))
    factor, others = 0, list[tuple[int, Range]]()
    for atom, coefficient in total.terms:
        if not isinstance(atom, Dim):
            return None
        value = condition.operands[atom.position]
        if value is op.induction_variable:
            factor = coefficient
            continue
        if value not in known.ranges:
            return None
        others.append((coefficient, known.ranges[value]))
    low, high = weighted_sum(total.constant, others)
    if factor > 0:
        # It holds while factor * i + high < 0, and fails once factor * i + low >= 0.
        return (-1 - high) // factor + 1, -(low // factor)
    if factor < 0:
        return low // -factor + 1, high // -factor + 1
    return None


def _choices(root: Operation) -> Iterator[SelectOp | loop.LoadOp]:
    """Yield selects between loaded values, and loads with defaults, that depend on the position."""
    for op in walk_ops(root):
        if isinstance(op, loop.LoadOp):
            if op.default is not None and op.mask is None and not _is_chosen(op):
                yield op
        elif isinstance(op, SelectOp) and _has_condition(op.cond):
            yield from [op] if _reads(op.lhs) or _reads(op.rhs) else ()


def _is_chosen(op: loop.LoadOp) -> bool:
    """Whether all uses are in selects with a condition, so that the default does not matter."""
    users = [use.operation for use in op.result.uses]
    return any(isinstance(user, SelectOp) and _has_condition(user.cond) for user in users)


def _reads(value: SSAValue) -> bool:
    """Whether a value is computed from loads."""
    owner = value.owner
    if isinstance(owner, loop.LoadOp):
        return True
    if not isinstance(owner, Operation) or owner.regions or not is_side_effect_free(owner):
        return False
    return any(_reads(operand) for operand in owner.operands)


def _conditions_of(choice: SelectOp | loop.LoadOp) -> Iterator[_Negative]:
    """Yield the comparisons that decide a select, or the bounds checks of a load's indices."""
    if isinstance(choice, SelectOp):
        yield from _conditions(choice.cond)
        return
    extents = extents_of(choice.memref.type)
    known = Knowledge() if is_fixed(extents) else knowledge_at(choice)
    for expr, extent in zip(choice.map.data.results, extents, strict=True):
        end, operands = known.end_of(extent, choice.indices)
        yield _Negative(expr, tuple(operands))
        yield _Negative(expr - end, tuple(operands))


def _has_condition(value: SSAValue) -> bool:
    return next(_conditions(value), None) is not None


_JOINS = (arith.AndIOp, arith.OrIOp)


def _conditions(value: SSAValue) -> Iterator[_Negative]:
    """Yield the comparisons of index values in a condition."""
    owner = value.owner
    if isinstance(owner, _JOINS):
        for operand in owner.operands:
            yield from _conditions(operand)
    elif isinstance(owner, CmpiOp) and isinstance(owner.lhs.type, IndexType):
        found = _negative(owner)
        if found is not None:
            yield found[0]


_FORMS = {2: (0, False), 3: (-1, False), 4: (-1, True), 5: (0, True)}
"""For slt, sle, sgt and sge: a constant to add to a - b, and whether its sign test is inverted."""


def _negative(op: CmpiOp) -> tuple[_Negative, bool] | None:
    """Return a comparison as a test for a negative sum, and whether the test is inverted."""
    form = _FORMS.get(op.predicate.value.data)
    sides = _affine(op.lhs), _affine(op.rhs)
    if form is None or None in sides:
        return None
    (left, left_values), (right, right_values) = (side for side in sides if side is not None)
    constant, is_inverse = form
    dims: list[AffineExpr] = [
        AffineDimExpr(len(left_values) + place) for place in range(len(right_values))
    ]
    expr = left + substitute(right, dims) * -1 + AffineConstantExpr(constant)
    return _Negative(expr, (*left_values, *right_values)), is_inverse


def _affine(value: SSAValue) -> tuple[AffineExpr, tuple[SSAValue, ...]] | None:
    """Return an index as an expression over loop variables, or None."""
    owner = value.owner
    match owner:
        case loop.IndexOp():
            return owner.map.data.results[0], tuple(owner.indices)
        case arith.ConstantOp(value=IntegerAttr() as number):
            return AffineConstantExpr(number.value.data), ()
        case Operation():
            return None
        case _:
            return AffineDimExpr(0), (value,)


def _decide(value: SSAValue, known: Knowledge) -> bool | None:
    """Return whether a condition holds, or None if unknown."""
    owner = value.owner
    match owner:
        case arith.ConstantOp(value=IntegerAttr() as number):
            return bool(number.value.data)
        case arith.AndIOp() | arith.OrIOp():
            decisive = isinstance(owner, arith.OrIOp)
            found = [_decide(operand, known) for operand in owner.operands]
            if decisive in found:
                return decisive
            return None if None in found else not decisive
        case CmpiOp() if isinstance(owner.lhs.type, IndexType):
            form = _negative(owner)
            if form is None:
                return None
            condition, is_inverse = form
            low, high = known.bounds(condition.expr, condition.operands)
            return is_inverse if low >= 0 else (not is_inverse if high < 0 else None)
        case _:
            return None
