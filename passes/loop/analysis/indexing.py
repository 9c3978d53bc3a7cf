"""Index expressions over SSA values, and known facts about them at a point of a loop nest.

An *access* is an affine map over a list of index values, as in the ops of the loop dialect.
`Knowledge` collects the ranges of loop variables and the conditions of enclosing guards, and uses
them to simplify accesses and to decide conditions.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.support.arithmetic.affine import (
    Dim,
    FloorDiv,
    LinearSum,
    Mod,
    bounds,
    compact_map,
    linear_sum,
    substitute,
    sum_range,
    to_expr,
)
from tcopt.support.arithmetic.intervals import (
    UNBOUNDED,
    Range,
    meet,
    multipliers,
    range_below,
    weighted_sum,
)
from tcopt.support.ir.literals import segment_sizes

Operands = Sequence[SSAValue]
Environment = Mapping[SSAValue, tuple[AffineExpr, Operands]]
"""Replacements of index values: expressions over other values."""

IndexedOp = (
    loop.LoadOp
    | loop.StoreOp
    | loop.PrefetchOp
    | loop.IndexOp
    | loop.MaskOp
    | loop.GuardOp
    | loop.IntrinOp
)


@dataclass(frozen=True)
class Division:
    """`sum floordiv divisor` or `sum mod divisor` of SSA values, as a term."""

    is_mod: bool
    operand: ValueSum
    divisor: int


@dataclass(frozen=True)
class ValueSum:
    """`sum(coefficient * term) + constant` over SSA values: equal sums compare equal."""

    terms: frozenset[tuple[SSAValue | Division, int]]
    constant: int


def value_sum(total: LinearSum, operands: Operands) -> ValueSum:
    """Replace the dimensions of a linear sum by the values that they represent."""
    terms: dict[SSAValue | Division, int] = {}
    for atom, factor in total.terms:
        match atom:
            case Dim():
                term: SSAValue | Division = operands[atom.position]
            case FloorDiv():
                term = Division(False, value_sum(atom.operand, operands), atom.divisor)
            case Mod():
                term = Division(True, value_sum(atom.operand, operands), atom.divisor)
        terms[term] = terms.get(term, 0) + factor
    return ValueSum(frozenset((t, c) for t, c in terms.items() if c), total.constant)


@dataclass
class Fact:
    """The fact `0 <= total < extent`."""

    total: ValueSum
    extent: int


@dataclass
class Knowledge:
    """Ranges of index values, and conditions that hold."""

    ranges: dict[SSAValue, Range] = field(default_factory=dict[SSAValue, Range])
    facts: list[Fact] = field(default_factory=list[Fact])
    lanes: set[SSAValue] = field(default_factory=set[SSAValue])
    """Variables of vectorised loops. Guards on them become masks, so their ranges are not narrowed:
    an access must not lose its dependence on the lane."""

    def enter_loop(self, op: loop.ForOp) -> None:
        """Record the range of a loop's variable."""
        self.ranges[op.induction_variable] = range_below(op.trip_count)
        if op.loop_kind is loop.LoopKind.VECTORIZED:
            self.lanes.add(op.induction_variable)

    def enter(self, op: loop.ForOp | loop.GuardOp) -> None:
        """Learn what holds inside of a loop or a guard."""
        if isinstance(op, loop.ForOp):
            self.enter_loop(op)
        else:
            self.assume(op.map.data.results, op.indices, op.condition_extents)

    @contextmanager
    def inside_guard(
        self, exprs: Sequence[AffineExpr], operands: Operands, extents: Sequence[int]
    ) -> Generator[None]:
        """Assume `0 <= expr < extent` for each pair while the context is open."""
        saved, count = dict(self.ranges), len(self.facts)
        self.assume(exprs, operands, extents)
        yield
        self.ranges = saved
        del self.facts[count:]

    def assume(
        self, exprs: Sequence[AffineExpr], operands: Operands, extents: Sequence[int]
    ) -> None:
        """Record that `0 <= expr < extent` for each pair."""
        for expr, extent in zip(exprs, extents, strict=True):
            total = self.linear(expr, operands)
            self.facts.append(Fact(value_sum(total, operands), extent))
            self._narrow(total, operands, extent)

    def _narrow(self, total: LinearSum, operands: Operands, extent: int) -> None:
        """Narrow the range of a value if a condition depends on it alone."""
        match total:
            case LinearSum(terms=((Dim() as dim, factor),)):
                value = operands[dim.position]
                if value in self.lanes:
                    return
                allowed = multipliers(factor, (-total.constant, extent - 1 - total.constant))
                low, high = meet(self.ranges.get(value, UNBOUNDED), allowed)
                if low <= high:
                    self.ranges[value] = (low, high)
            case _:
                pass

    def ranges_of(self, operands: Operands) -> tuple[Range, ...]:
        """Return the range of each value; unbounded if unknown."""
        return tuple([self.ranges.get(value, UNBOUNDED) for value in operands])

    def linear(self, expr: AffineExpr, operands: Operands) -> LinearSum:
        """Return the canonical form of an expression; dimension `i` is operand `i`."""
        return linear_sum(expr, self.ranges_of(operands))

    def bounds(self, expr: AffineExpr, operands: Operands) -> Range:
        """Return inclusive bounds of an expression, derived from ranges only."""
        return bounds(expr, self.ranges_of(operands))

    def simplify(
        self, exprs: Sequence[AffineExpr], operands: Operands
    ) -> tuple[AffineMap, list[SSAValue]]:
        """Return simplified expressions and the operands that they still use."""
        ranges = self.ranges_of(operands)
        results = [to_expr(linear_sum(expr, ranges)) for expr in exprs]
        compact, kept = compact_map(results, len(operands))
        return compact, [operands[i] for i in kept]

    def decide(self, expr: AffineExpr, operands: Operands, extent: int) -> bool | None:
        """Return whether `0 <= expr < extent` always (True) or never (False) holds, or None."""
        ranges = self.ranges_of(operands)
        total = linear_sum(expr, ranges)
        low, high = sum_range(total, ranges)
        if low >= 0 and high < extent:
            return True
        if high < 0 or low >= extent:
            return False
        if self.facts:
            low, high = self._tighten(value_sum(total, operands), low, high)
            if low >= 0 and high < extent:
                return True
        return None

    def _tighten(self, total: ValueSum, low: int, high: int) -> Range:
        """Tighten bounds of a sum by each known condition: the bounds of a multiple of the
        condition's sum, plus those of the difference."""
        terms = dict(total.terms)
        for fact in self.facts:
            times = _multiple(terms, fact)
            rest = dict(terms)
            for term, factor in fact.total.terms:
                rest[term] = rest.get(term, 0) - times * factor
            # The condition's sum is a term in `range(extent)`.
            known: list[tuple[int, Range]] = [(times, (0, fact.extent - 1))]
            known += [(f, self._term_range(term)) for term, f in rest.items() if f]
            offset = total.constant - times * fact.total.constant
            low, high = meet((low, high), weighted_sum(offset, known))
        return low, high

    def _term_range(self, term: SSAValue | Division) -> Range:
        if isinstance(term, SSAValue):
            return self.ranges.get(term, UNBOUNDED)
        return (0, term.divisor - 1) if term.is_mod else UNBOUNDED


def _multiple(terms: Mapping[SSAValue | Division, int], fact: Fact) -> int:
    """Return how often a condition's sum is in another sum, by a common term; at least 1."""
    for term, factor in fact.total.terms:
        if term in terms and terms[term] % factor == 0:
            return max(terms[term] // factor, 1)
    return 1


def compose(
    exprs: Sequence[AffineExpr], operands: Operands, environment: Environment
) -> tuple[list[AffineExpr], list[SSAValue]]:
    """Substitute the environment's expressions for operands, which become distinct."""
    position: dict[SSAValue, int] = {}

    def dim(value: SSAValue) -> AffineExpr:
        return AffineDimExpr(position.setdefault(value, len(position)))

    replacements: list[AffineExpr] = []
    for value in operands:
        if (found := environment.get(value)) is None:
            replacements.append(dim(value))
        else:
            expr, values = found
            replacements.append(substitute(expr, [dim(v) for v in values]))
    return [substitute(expr, replacements) for expr in exprs], list(position)


def set_access(op: IndexedOp, map: AffineMap, indices: Operands) -> None:
    """Replace the access map and index operands of an op."""
    op.map = AffineMapAttr(map)
    match op:
        case loop.LoadOp():
            rest = () if op.mask is None else (op.mask,)
            op.operands = (op.memref, *indices, *rest)
            op.properties["operandSegmentSizes"] = segment_sizes(1, len(indices), len(rest))
        case loop.StoreOp():
            rest = () if op.mask is None else (op.mask,)
            op.operands = (op.value, op.memref, *indices, *rest)
            op.properties["operandSegmentSizes"] = segment_sizes(1, 1, len(indices), len(rest))
        case loop.IntrinOp():
            op.set_indices(indices)
        case loop.PrefetchOp():
            op.operands = (op.memref, *indices)
        case _:
            op.operands = tuple(indices)


def is_inside(op: loop.LoadOp | loop.StoreOp, known: Knowledge) -> bool:
    """Whether all elements of an access, masked ones included, are inside of its buffer."""
    places = zip(op.map.data.results, buffer_shape(op.memref), op.lane_reaches, strict=True)
    for expr, extent, reach in places:
        corners = [expr + AffineConstantExpr(end) if end else expr for end in {*reach}]
        if any(known.decide(corner, op.indices, extent) is not True for corner in corners):
            return False
    return True


def simplify_access(
    op: IndexedOp, known: Knowledge, environment: Environment | None = None
) -> bool:
    """Simplify an op's index expressions, after an optional substitution.

    A load's default is dropped if its index is always inside of the buffer.

    Returns:
        Whether the op changed.
    """
    exprs, operands = list(op.map.data.results), list(op.indices)
    if environment:
        exprs, operands = compose(exprs, operands, environment)
    map, indices = known.simplify(exprs, operands)
    changed = map != op.map.data or indices != list(op.indices)
    if changed:
        set_access(op, map, indices)
    if (
        isinstance(op, loop.LoadOp)
        and op.default is not None
        and op.mask is None
        and is_inside(op, known)
    ):
        op.default = None
        changed = True
    return changed
