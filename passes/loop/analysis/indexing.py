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
from tcopt.dialects.loop.structure import size_ranges
from tcopt.dialects.size import extents_of, size_arguments
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
from tcopt.support.arithmetic.sizes import Extent, to_affine, upper_bound
from tcopt.support.errors import PassFailedError
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


@dataclass(frozen=True)
class Conditions:
    """The conditions `0 <= expr < extent` for pairs of expressions over operands and numbers."""

    operands: Operands
    pairs: Sequence[tuple[AffineExpr, int]]


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
    sizes: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """The index arguments of the function that are sizes, by the name of their symbol."""
    lanes: set[SSAValue] = field(default_factory=set[SSAValue])
    """Variables of vectorised loops. Guards on them become masks, so their ranges are not narrowed:
    an access must not lose its dependence on the lane."""

    @classmethod
    def of(cls, function: loop.FuncOp) -> Knowledge:
        """Return what holds everywhere in a function: the ranges of its sizes."""
        return cls(ranges=size_ranges(function), sizes=size_arguments(function))

    def enter_loop(self, op: loop.ForOp) -> None:
        """Record the range of a loop's variable."""
        self.ranges[op.induction_variable] = range_below(op.trip_count)
        if op.loop_kind is loop.LoopKind.VECTORIZED:
            self.lanes.add(op.induction_variable)

    def enter(self, op: loop.ForOp | loop.GuardOp) -> None:
        """Learn what holds inside of a loop or a guard."""
        if isinstance(op, loop.ForOp):
            self.enter_loop(op)
            self._assume_limit(op)
        else:
            self.assume(op.map.data.results, op.indices, op.condition_extents)

    @contextmanager
    def inside_loop(self, op: loop.ForOp) -> Generator[None]:
        """Enter a loop; what its limit implies is forgotten when the context closes."""
        count = len(self.facts)
        self.enter(op)
        yield
        del self.facts[count:]

    def _assume_limit(self, op: loop.ForOp) -> None:
        """Record that the variable of a loop is below the loop's limit."""
        limit = op.limit
        if limit is None:
            return
        expr, operands = AffineDimExpr(0), [limit]
        if isinstance(limit.owner, loop.IndexOp):
            expr, operands = limit.owner.map.data.results[0], list(limit.owner.indices)
        left = expr - AffineDimExpr(len(operands)) - 1
        total = self.linear(left, [*operands, op.induction_variable])
        match [term for term in total.terms if isinstance(term[0], FloorDiv)]:
            case [(FloorDiv() as quotient, 1)]:
                # a floordiv n + b >= 0 is equivalent to a + n * b >= 0.
                rest = LinearSum(tuple(t for t in total.terms if t[0] != quotient), total.constant)
                by = quotient.divisor
                multiple = to_expr(quotient.operand) + to_expr(rest) * by
                total = self.linear(multiple, [*operands, op.induction_variable])
            case _:
                pass
        values = [*operands, op.induction_variable]
        _, high = sum_range(total, self.ranges_of(values))
        self.facts.append(Fact(value_sum(total, values), max(high, 0) + 1))

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

    def with_sizes(self, operands: Operands) -> list[SSAValue]:
        """Return operands followed by the sizes that are not among them."""
        return [*operands, *(size for size in self.sizes.values() if size not in operands)]

    def conditions(self, expr: AffineExpr, operands: Operands, extent: Extent) -> Conditions:
        """Return conditions with constant extents that are together `0 <= expr < extent`.

        `0 <= i < n` becomes `0 <= n - 1 - i < 512` for a size n of up to 512 if i is known not to
        be negative.
        """
        if isinstance(extent, int):
            return Conditions(operands, [(expr, extent)])
        bound = upper_bound(extent)
        end, values = self.end_of(extent, operands)
        found = [(end - expr - 1, bound)]
        if self.decide(expr, operands, UNBOUNDED[1]) is not True:
            found.append((expr, bound))
        return Conditions(values, found)

    def end_of(self, extent: Extent, operands: Operands) -> tuple[AffineExpr, Operands]:
        """Return an extent as an expression over operands and the sizes after them."""
        if isinstance(extent, int):
            return AffineConstantExpr(extent), operands
        values = self.with_sizes(operands)
        places = {name: values.index(value) for name, value in self.sizes.items()}
        end = to_affine(extent, places)
        if end is None:
            raise PassFailedError(f"the extent {extent} is not affine in the function's sizes")
        return end, values

    def decide(self, expr: AffineExpr, operands: Operands, extent: Extent) -> bool | None:
        """Return whether `0 <= expr < extent` always (True) or never (False) holds, or None."""
        if not isinstance(extent, int):
            return self._decide_all(self.conditions(expr, operands, extent))
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
            if high < 0 or low >= extent:
                return False
        return None

    def _decide_all(self, found: Conditions) -> bool | None:
        decided = [self.decide(expr, found.operands, extent) for expr, extent in found.pairs]
        if False in decided:
            return False
        return None if None in decided else True

    def _tighten(self, total: ValueSum, low: int, high: int) -> Range:
        """Tighten bounds of a sum by each known condition: the bounds of a multiple of the
        condition's sum, plus those of the difference."""
        terms = dict(total.terms)
        for fact in self.facts:
            for times in _multiples(terms, fact):
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


def _multiples(terms: Mapping[SSAValue | Division, int], fact: Fact) -> set[int]:
    """Return how often a condition's sum is in another sum, by each of their common terms."""
    found = {
        terms[term] // factor
        for term, factor in fact.total.terms
        if term in terms and terms[term] % factor == 0
    }
    return found or {1}


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
    extents = extents_of(op.memref.type)
    places = zip(op.map.data.results, extents, op.lane_reaches, strict=True)
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
