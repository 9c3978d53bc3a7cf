"""Affine index arithmetic with known ranges.

Expressions are xDSL `AffineExpr` over dimensions whose inclusive ranges are known.
`simplify` brings an expression to a canonical sum of terms and uses the ranges to remove floordiv
and mod wherever their result is known, so that index arithmetic stays free of divisions:

    (d0 * 4 + d1) floordiv 4,  d1 in [0, 3]   ->  d0
    (d0 floordiv 7) * 7 + d0 mod 7            ->  d0
    (d0 * 8 + d1) floordiv 64,  d1 in [0, 7]  ->  d0 floordiv 8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from tcopt.support.arithmetic.intervals import (
    UNBOUNDED,
    Range,
    quotient,
    remainder,
    weighted_sum,
)
from tcopt.support.memo import memo


class Dim(NamedTuple):
    """A dimension as an atom of a sum."""

    position: int


@dataclass(frozen=True)
class FloorDiv:
    """Irreducible `operand floordiv divisor`."""

    operand: LinearSum
    divisor: int


@dataclass(frozen=True)
class Mod:
    """Irreducible `operand mod divisor`."""

    operand: LinearSum
    divisor: int


Atom = Dim | FloorDiv | Mod


class LinearSum(NamedTuple):
    """`sum(coefficient * atom) + constant`, with sorted terms."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_linear(self) -> bool:
        """Whether the sum has no divisions, so that its interval bounds are exact."""
        return all(isinstance(atom, Dim) for atom, _ in self.terms)

    @property
    def dims(self) -> set[int]:
        """The dimensions in the sum, also in divisions."""
        return set[int]().union(*(dims_of(atom) for atom, _ in self.terms))

    def coefficient(self, dim: int) -> int:
        """Return the coefficient of dimension `dim` outside of divisions."""
        for atom, factor in self.terms:
            if isinstance(atom, Dim) and atom.position == dim:
                return factor
        return 0


def dims_of(atom: Atom) -> set[int]:
    """Return the dimensions in an atom."""
    return {atom.position} if isinstance(atom, Dim) else atom.operand.dims


def _key(atom: Atom) -> tuple[int, str]:
    return (atom.position, "") if isinstance(atom, Dim) else (1 << 30, repr(atom))


def _make(terms: Mapping[Atom, int], constant: int) -> LinearSum:
    kept = [(a, c) for a, c in terms.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda term: _key(term[0]))
    return LinearSum(tuple(kept), constant)


def _add(a: LinearSum, b: LinearSum, factor: int = 1) -> LinearSum:
    terms = dict(a.terms)
    for atom, coefficient in b.terms:
        terms[atom] = terms.get(atom, 0) + factor * coefficient
    return _make(terms, a.constant + factor * b.constant)


def _scale(a: LinearSum, factor: int) -> LinearSum:
    if factor == 0:
        return LinearSum((), 0)
    return LinearSum(tuple((t, c * factor) for t, c in a.terms), a.constant * factor)


def _atom_range(atom: Atom, ranges: Sequence[Range]) -> Range:
    if isinstance(atom, Dim):
        return ranges[atom.position] if atom.position < len(ranges) else UNBOUNDED
    rule = quotient if isinstance(atom, FloorDiv) else remainder
    return rule(sum_range(atom.operand, ranges), atom.divisor)


def sum_range(value: LinearSum, ranges: Sequence[Range]) -> Range:
    """Return bounds of `value`; exact if it is linear in independent dimensions."""
    terms = [(factor, _atom_range(atom, ranges)) for atom, factor in value.terms]
    return weighted_sum(value.constant, terms)


def _split(value: LinearSum, divisor: int) -> tuple[LinearSum, LinearSum]:
    """Split `value` into `divisor * quotient + remainder`, without splitting terms."""
    quotient: dict[Atom, int] = {}
    remainder: dict[Atom, int] = {}
    for atom, factor in value.terms:
        if factor % divisor == 0:
            quotient[atom] = factor // divisor
        else:
            remainder[atom] = factor
    return (
        _make(quotient, value.constant // divisor),
        _make(remainder, value.constant % divisor),
    )


def _split_digits(
    value: LinearSum, divisor: int, ranges: Sequence[Range]
) -> tuple[LinearSum, LinearSum, int] | None:
    """Split `value` into `factor * high + low`, 0 <= low < factor; `factor` divides `divisor`."""
    for factor in sorted({gcd(divisor, f) for _, f in value.terms} - {1, divisor}, reverse=True):
        high, low = _split(value, factor)
        least, most = sum_range(low, ranges)
        if high.terms and least >= 0 and most < factor:
            return high, low, factor
    return None


def _floordiv(value: LinearSum, divisor: int, ranges: Sequence[Range]) -> LinearSum:
    quotient, rest = _split(value, divisor)
    low, high = sum_range(rest, ranges)
    if low // divisor == high // divisor:
        return LinearSum(quotient.terms, quotient.constant + low // divisor)
    common = gcd(divisor, *(factor for _, factor in rest.terms))
    if common > 1:
        rest = LinearSum(tuple((a, c // common) for a, c in rest.terms), rest.constant // common)
        return _add(quotient, _floordiv(rest, divisor // common, ranges))
    if digits := _split_digits(rest, divisor, ranges):
        upper, _, factor = digits
        return _add(quotient, _floordiv(upper, divisor // factor, ranges))
    match rest:
        case LinearSum(terms=((FloorDiv() as inner, 1),), constant=0):
            return _add(quotient, _floordiv(inner.operand, inner.divisor * divisor, ranges))
        case _:
            return _add(quotient, LinearSum(((FloorDiv(rest, divisor), 1),), 0))


def _mod(value: LinearSum, divisor: int, ranges: Sequence[Range]) -> LinearSum:
    _, rest = _split(value, divisor)
    low, high = sum_range(rest, ranges)
    if low // divisor == high // divisor:
        return LinearSum(rest.terms, rest.constant - divisor * (low // divisor))
    common = gcd(divisor, *(factor for _, factor in rest.terms))
    if common > 1 and rest.constant % common == 0:
        inner = LinearSum(tuple((a, c // common) for a, c in rest.terms), rest.constant // common)
        return _scale(_mod(inner, divisor // common, ranges), common)
    if digits := _split_digits(rest, divisor, ranges):
        upper, lower, factor = digits
        return _add(lower, _mod(upper, divisor // factor, ranges), factor)
    match rest:
        case LinearSum(terms=((Mod() as nested, 1),), constant=0) if nested.divisor % divisor == 0:
            return _mod(nested.operand, divisor, ranges)
        case _:
            return LinearSum(((Mod(rest, divisor), 1),), 0)


def _recombine(value: LinearSum, ranges: Sequence[Range]) -> LinearSum:
    """Fold `k * (e mod c) + k * c * (e floordiv c)` into `k * e`."""
    terms = dict(value.terms)
    for atom, factor in value.terms:
        if not isinstance(atom, Mod):
            continue
        quotient = _floordiv(atom.operand, atom.divisor, ranges)
        if len(quotient.terms) != 1 or quotient.constant:
            continue
        other, scale = quotient.terms[0]
        wanted = factor * atom.divisor
        if scale == 1 and isinstance(other, FloorDiv) and terms.get(other) == wanted:
            del terms[atom], terms[other]
            rest = _make(terms, value.constant)
            return _recombine(_add(rest, atom.operand, factor), ranges)
    return value


def linear_sum(expr: AffineExpr, ranges: Sequence[Range]) -> LinearSum:
    """Return the canonical form of `expr` for dimensions within `ranges`.

    Symbols are treated as dimensions that follow the first `len(ranges)` ones.
    """
    if type(expr) is not AffineBinaryOpExpr:
        return _linear_sum(expr, tuple(ranges))
    return _cached_sum(expr, tuple(ranges))


@memo(1 << 16)
def _cached_sum(expr: AffineExpr, ranges: tuple[Range, ...]) -> LinearSum:
    return _linear_sum(expr, ranges)


def _linear_sum(expr: AffineExpr, ranges: tuple[Range, ...]) -> LinearSum:
    # Subexpressions are not memoised, as each level would hash them again.
    kind = type(expr)
    if kind is AffineBinaryOpExpr:
        assert isinstance(expr, AffineBinaryOpExpr)
        lhs, rhs = _linear_sum(expr.lhs, ranges), _linear_sum(expr.rhs, ranges)
        return _recombine(_combine(expr.kind, lhs, rhs, ranges), ranges)
    if kind is AffineConstantExpr:
        assert isinstance(expr, AffineConstantExpr)
        return LinearSum((), expr.value)
    if kind is AffineDimExpr:
        assert isinstance(expr, AffineDimExpr)
        low, high = ranges[expr.position] if expr.position < len(ranges) else UNBOUNDED
        if low == high:
            return LinearSum((), low)
        return LinearSum(((Dim(expr.position), 1),), 0)
    if isinstance(expr, AffineSymExpr):
        return LinearSum(((Dim(len(ranges) + expr.position), 1),), 0)
    raise ValueError(f"not an affine expression: {expr}")


def _combine(
    kind: AffineBinaryOpKind, lhs: LinearSum, rhs: LinearSum, ranges: tuple[Range, ...]
) -> LinearSum:
    match kind:
        case AffineBinaryOpKind.Add:
            return _add(lhs, rhs)
        case AffineBinaryOpKind.Mul:
            if rhs.is_constant:
                return _scale(lhs, rhs.constant)
            if lhs.is_constant:
                return _scale(rhs, lhs.constant)
            raise ValueError("product of two index expressions is not affine")
        case _:
            if not rhs.is_constant or rhs.constant <= 0:
                raise ValueError("division of an index by anything but a positive constant")
    divisor = rhs.constant
    match kind:
        case AffineBinaryOpKind.FloorDiv:
            return _floordiv(lhs, divisor, ranges)
        case AffineBinaryOpKind.CeilDiv:
            return _floordiv(LinearSum(lhs.terms, lhs.constant + divisor - 1), divisor, ranges)
        case _:
            return _mod(lhs, divisor, ranges)


def _binary(kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    return AffineBinaryOpExpr(kind, lhs, rhs)


def _atom_expr(atom: Atom) -> AffineExpr:
    match atom:
        case Dim():
            return AffineDimExpr(atom.position)
        case FloorDiv():
            kind = AffineBinaryOpKind.FloorDiv
        case Mod():
            kind = AffineBinaryOpKind.Mod
    return _binary(kind, to_expr(atom.operand), AffineConstantExpr(atom.divisor))


def to_expr(value: LinearSum) -> AffineExpr:
    """Return the affine expression of a sum."""
    result: AffineExpr | None = None
    for atom, factor in value.terms:
        term = _atom_expr(atom)
        if factor != 1:
            term = _binary(AffineBinaryOpKind.Mul, term, AffineConstantExpr(factor))
        result = term if result is None else _binary(AffineBinaryOpKind.Add, result, term)
    if result is None:
        return AffineConstantExpr(value.constant)
    if value.constant:
        constant = AffineConstantExpr(value.constant)
        result = _binary(AffineBinaryOpKind.Add, result, constant)
    return result


def simplify(expr: AffineExpr, ranges: Sequence[Range]) -> AffineExpr:
    """Return `expr` in canonical form, without divisions that `ranges` make redundant."""
    return to_expr(linear_sum(expr, ranges))


def bounds(expr: AffineExpr, ranges: Sequence[Range]) -> Range:
    """Return inclusive bounds of `expr`."""
    return sum_range(linear_sum(expr, ranges), ranges)


def coarser(expr: AffineExpr, extent: int, ranges: Sequence[Range]) -> tuple[AffineExpr, int]:
    """Return an equivalent of `0 <= expr < extent` with fewer terms, if there is one.

    d0 * 4 + d1 < 100,  d1 in [0, 3]    ->  d0 < 25
    d0 floordiv 30 < 7                  ->  d0 < 210
    """
    total = linear_sum(expr, ranges)
    while len(total.terms) == 1 and not total.constant:
        ((atom, factor),) = total.terms
        if factor != 1 or not isinstance(atom, FloorDiv):
            break
        total, extent = atom.operand, extent * atom.divisor
    for size in sorted({gcd(extent, factor) for _, factor in total.terms} - {1}, reverse=True):
        quotient = _floordiv(total, size, ranges)
        known = {atom for atom, _ in total.terms}
        if len(quotient.terms) < len(total.terms) and known.issuperset(
            a for a, _ in quotient.terms
        ):
            return to_expr(quotient), extent // size
    return to_expr(total), extent


def substitute(expr: AffineExpr, dims: Sequence[AffineExpr]) -> AffineExpr:
    """Replace dimension `i` of `expr` by `dims[i]`."""
    # Compare types, because class patterns check abstract classes, which is slower.
    kind = type(expr)
    if kind is AffineDimExpr:
        assert isinstance(expr, AffineDimExpr)
        return dims[expr.position] if expr.position < len(dims) else expr
    if kind is AffineBinaryOpExpr:
        assert isinstance(expr, AffineBinaryOpExpr)
        lhs, rhs = substitute(expr.lhs, dims), substitute(expr.rhs, dims)
        if lhs is expr.lhs and rhs is expr.rhs:
            return expr
        if _is_simple(expr.kind, lhs, rhs):
            return AffineBinaryOpExpr(expr.kind, lhs, rhs)
        return AffineExpr.binary(expr.kind, lhs, rhs)
    return expr


def _is_simple(kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr) -> bool:
    """Whether an expression of two operands has nothing to fold."""
    if kind is AffineBinaryOpKind.Add:
        return type(lhs) is not AffineConstantExpr and type(rhs) is not AffineConstantExpr
    return (
        kind is AffineBinaryOpKind.Mul
        and type(lhs) is AffineDimExpr
        and isinstance(rhs, AffineConstantExpr)
        and rhs.value != 1
    )


def used_dims(expr: AffineExpr) -> set[int]:
    """Return the dimensions used by `expr`."""
    found: set[int] = set()
    rest = [expr]
    while rest:
        each = rest.pop()
        kind = type(each)
        if kind is AffineBinaryOpExpr:
            assert isinstance(each, AffineBinaryOpExpr)
            rest += (each.lhs, each.rhs)
        elif kind is AffineDimExpr:
            assert isinstance(each, AffineDimExpr)
            found.add(each.position)
    return found


def compact_map(results: Sequence[AffineExpr], num_dims: int) -> tuple[AffineMap, list[int]]:
    """Drop dimensions that no result uses; return the map and the positions that remain."""
    used = sorted(set[int]().union(*map(used_dims, results)))
    if len(used) == num_dims:
        return AffineMap(num_dims, 0, tuple(results)), used
    renumber: list[AffineExpr] = [AffineConstantExpr(0)] * num_dims
    for new, old in enumerate(used):
        renumber[old] = AffineDimExpr(new)
    return AffineMap(len(used), 0, tuple(substitute(e, renumber) for e in results)), used
