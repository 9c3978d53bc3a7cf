"""Division, minimum and maximum of polynomials over named sizes, in canonical form."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import gcd

from tcopt.support.arithmetic.size_bounds import is_never_negative, polynomial_bounds
from tcopt.support.arithmetic.size_terms import (
    ZERO,
    MinMax,
    Monomial,
    Polynomial,
    Quotient,
    add,
    constant,
    multiply,
    of_atom,
    of_terms,
    scale,
    split,
)


def floor_divide(value: Polynomial, divisor: int) -> Polynomial:
    """Return `value floordiv divisor`.

    Multiples of the divisor leave the quotient, as do digits too small to matter:

        (2 * n + 5) floordiv 2                    ->  n + 2
        (3 * n) floordiv 2                        ->  n + n floordiv 2
        (n floordiv 4 + 1) floordiv 2             ->  (n + 4) floordiv 8
        (8 * n + m) floordiv 64,  m in [0, 7]     ->  n floordiv 8

    Raises:
        ZeroDivisionError: the divisor is 0.
    """
    if divisor < 0:
        return floor_divide(scale(value, -1), -divisor)
    whole, rest = split(value, divisor)
    return add(whole, _quotient(rest, divisor))


def _quotient(value: Polynomial, divisor: int) -> Polynomial:
    """Return the quotient of a polynomial with coefficients in [0, divisor)."""
    low, high = polynomial_bounds(value)
    if low // divisor == high // divisor:
        return constant(low // divisor)
    for digit in sorted({gcd(factor, divisor) for _, factor in value.terms}, reverse=True):
        below = of_terms({m: f for m, f in value.terms if f % digit}, value.constant % digit)
        low, high = polynomial_bounds(below)
        if digit > 1 and low // digit == high // digit:
            above = add(add(value, below, -1), constant(low // digit * digit))
            terms = {monomial: factor // digit for monomial, factor in above.terms}
            return floor_divide(of_terms(terms, above.constant // digit), divisor // digit)
    inner = [m[0] for m, f in value.terms if f == 1 and len(m) == 1 and isinstance(m[0], Quotient)]
    if len(inner) == 1 and sum(isinstance(atom, Quotient) for atom in value.atoms) == 1:
        (atom,) = inner
        assert isinstance(atom, Quotient)
        other = add(value, of_atom(atom), -1)
        flat = add(atom.operand, other, atom.divisor)
        return floor_divide(flat, atom.divisor * divisor)
    return of_atom(Quotient(value, divisor))


def divide(value: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """Return `value floordiv divisor`; None if its form depends on the values of symbols.

    The result holds where the divisor is not 0.
    """
    value, divisor = _reduced(value, divisor)
    if divisor.is_constant:
        return floor_divide(value, divisor.constant)
    if not is_never_negative(divisor):
        if not is_never_negative(scale(divisor, -1)):
            whole, rest = _long_division(value, divisor)
            return whole if rest == ZERO else None
        value, divisor = scale(value, -1), scale(divisor, -1)
    whole, rest = _long_division(value, divisor)
    for step in (0, -1):
        left = add(rest, divisor, -step)
        gap = add(add(divisor, left, -1), constant(-1))
        # A remainder of 0 holds for any divisor; others have to be less than it.
        if left == ZERO or (is_never_negative(left) and is_never_negative(gap)):
            return add(whole, constant(step))
    return None


def _reduced(value: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Divide both polynomials by their common factors."""
    terms = [*_all_terms(value), *_all_terms(divisor)]
    factor = reduce(gcd, (each for _, each in terms))
    powers = {atom: min(m.count(atom) for m, _ in terms) for atom in terms[0][0]}
    shared = tuple(atom for atom, power in powers.items() for _ in range(power))
    return _cancel(value, shared, factor), _cancel(divisor, shared, factor)


def _all_terms(value: Polynomial) -> list[tuple[Monomial, int]]:
    return [*value.terms, ((), value.constant)] if value.constant else list(value.terms)


def _cancel(value: Polynomial, shared: Monomial, factor: int) -> Polynomial:
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in value.terms:
        left = _monomial_quotient(monomial, shared)
        assert left is not None
        terms[left] = coefficient // factor
    number = value.constant // factor
    return of_terms(terms, terms.pop((), 0) + number)


def _monomial_quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _long_division(value: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Return the quotient and remainder of polynomials."""
    (lead, by), *_ = divisor.terms
    whole, rest = ZERO, Polynomial((), value.constant)
    left = Polynomial(value.terms)
    while left.terms:
        monomial, factor = left.terms[0]
        part = _monomial_quotient(monomial, lead)
        if part is None or factor // by == 0:
            term = Polynomial((left.terms[0],))
            rest, left = add(rest, term), add(left, term, -1)
            continue
        number = factor // by
        quotient = Polynomial(((part, number),)) if part else constant(number)
        whole = add(whole, quotient)
        product = multiply(quotient, divisor)
        rest = add(rest, constant(product.constant), -1)
        left = add(left, Polynomial(product.terms), -1)
    return whole, rest


def extremum(values: Iterable[Polynomial], is_maximum: bool) -> Polynomial:
    """Return the minimum or maximum of one or more polynomials.

    Operands that the ranges exclude are dropped; a common summand and factor are taken out:

        min(2 * n + 2, 64)  ->  2 * min(n, 31) + 2
    """
    operands: dict[Polynomial, None] = {}
    for value in values:
        atom = value.only_atom
        if isinstance(atom, MinMax) and atom.is_maximum == is_maximum:
            operands.update(dict.fromkeys(atom.operands))
        else:
            operands[value] = None
    kept = _undominated(list(operands), -1 if is_maximum else 1)
    if len(kept) == 1:
        return kept[0]
    kept.sort(key=lambda value: value.order)
    shift = kept[0].constant
    kept = [add(value, constant(shift), -1) for value in kept]
    factor = reduce(gcd, (each for value in kept for _, each in _all_terms(value)))
    kept = [_cancel(value, (), factor) for value in kept]
    kept.sort(key=lambda value: value.order)
    return add(constant(shift), of_atom(MinMax(tuple(kept), is_maximum)), factor)


def _undominated(values: list[Polynomial], sign: int) -> list[Polynomial]:
    """Drop the values that are never less than another one; of negated values if the sign is -1."""
    kept: list[Polynomial] = []
    for value in values:
        if any(is_never_negative(scale(add(value, other, -1), sign)) for other in kept):
            continue
        kept = [k for k in kept if not is_never_negative(scale(add(k, value, -1), sign))]
        kept.append(value)
    return kept
