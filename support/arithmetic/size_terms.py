"""Polynomials over named sizes: the data of a symbolic size, and its ring operations.

A `Polynomial` has integer coefficients and a canonical form. Its variables are atoms: symbols, and
quotients, minima and maxima of other polynomials. `sizes` has the arithmetic of users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from tcopt.support.arithmetic.intervals import Range

Order: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named size divided by its declared multiple.

    The atom of a size `n` that is declared as a multiple of 16 is `n / 16`, and the size itself is
    16 times the atom. Divisibility is then visible in coefficients.

    Attributes:
        low, high: inclusive range of the named size, both divisible by `multiple`.
    """

    name: str
    low: int
    high: int
    multiple: int = 1

    @property
    def range(self) -> Range:
        """The range of the atom."""
        return self.low // self.multiple, self.high // self.multiple

    @property
    def order(self) -> Order:
        return 0, self.name, (self.low, self.high, self.multiple), ()


@dataclass(frozen=True, slots=True)
class Quotient:
    """`operand floordiv divisor`, for a divisor greater than 1."""

    operand: Polynomial
    divisor: int

    @property
    def order(self) -> Order:
        return 1, "", (self.divisor,), (self.operand.order,)


@dataclass(frozen=True, slots=True)
class Remainder:
    """`operand mod divisor`.

    It is used to print and to bound a polynomial. Canonical polynomials have
    `operand - divisor * quotient` instead, so that equal sizes have one form.
    """

    operand: Polynomial
    divisor: int

    @property
    def order(self) -> Order:
        return 2, "", (self.divisor,), (self.operand.order,)


@dataclass(frozen=True, slots=True)
class MinMax:
    """Minimum or maximum of two or more polynomials, in canonical order."""

    operands: tuple[Polynomial, ...]
    is_maximum: bool

    @property
    def order(self) -> Order:
        return 3, "", (int(self.is_maximum),), tuple(each.order for each in self.operands)


Atom: TypeAlias = Symbol | Quotient | Remainder | MinMax
Monomial: TypeAlias = tuple[Atom, ...]
"""Product of atoms, in canonical order; powers repeat the atom."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """`sum(coefficient * monomial) + constant`, with sorted terms and coefficients other than 0."""

    terms: tuple[tuple[Monomial, int], ...]
    constant: int = 0

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def order(self) -> Order:
        terms = ((*_monomial_order(monomial), factor) for monomial, factor in self.terms)
        return *terms, (0, (), self.constant)

    @property
    def atoms(self) -> dict[Atom, None]:
        """The atoms of the terms, without those inside of other atoms."""
        return dict.fromkeys(chain.from_iterable(monomial for monomial, _ in self.terms))

    @property
    def only_atom(self) -> Atom | None:
        """The atom that the polynomial consists of; None if there is more."""
        if self.constant or len(self.terms) != 1:
            return None
        (monomial, factor) = self.terms[0]
        return monomial[0] if factor == 1 and len(monomial) == 1 else None


ZERO = Polynomial(())


def constant(value: int) -> Polynomial:
    """Return a polynomial that is a number."""
    return Polynomial((), value)


def of_atom(atom: Atom) -> Polynomial:
    """Return a polynomial that is one atom."""
    return Polynomial((((atom,), 1),))


def _monomial_order(monomial: Monomial) -> Order:
    # Graded lexicographic order, which products preserve: division of polynomials relies on it.
    return -len(monomial), tuple(atom.order for atom in monomial)


def of_terms(terms: Mapping[Monomial, int], constant: int) -> Polynomial:
    """Build a polynomial from terms in any order; coefficients may be 0."""
    kept = [term for term in terms.items() if term[1]]
    if len(kept) > 1:
        kept.sort(key=lambda term: _monomial_order(term[0]))
    return Polynomial(tuple(kept), constant)


def add(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    """Return `a + factor * b`."""
    terms = dict(a.terms)
    for monomial, coefficient in b.terms:
        terms[monomial] = terms.get(monomial, 0) + factor * coefficient
    return of_terms(terms, a.constant + factor * b.constant)


def scale(value: Polynomial, factor: int) -> Polynomial:
    """Return `factor * value`."""
    if factor == 0:
        return ZERO
    terms = tuple((monomial, coefficient * factor) for monomial, coefficient in value.terms)
    return Polynomial(terms, value.constant * factor)


def split(value: Polynomial, divisor: int) -> tuple[Polynomial, Polynomial]:
    """Return `q, r` with `value = divisor * q + r` and coefficients of `r` in [0, divisor)."""
    terms = {monomial: factor // divisor for monomial, factor in value.terms}
    whole = of_terms(terms, value.constant // divisor)
    return whole, add(value, whole, -divisor)


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    """Return the product of two monomials."""
    if not a or not b:
        return a or b
    return tuple(sorted((*a, *b), key=lambda atom: atom.order))


def multiply(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return `a * b`."""
    if a.is_constant or b.is_constant:
        return scale(b, a.constant) if a.is_constant else scale(a, b.constant)
    terms: dict[Monomial, int] = {}
    for left, p in (*a.terms, ((), a.constant)):
        for right, q in (*b.terms, ((), b.constant)):
            monomial = multiply_monomials(left, right)
            terms[monomial] = terms.get(monomial, 0) + p * q
    return of_terms(terms, terms.pop((), 0))


def operands_of(atom: Atom) -> tuple[Polynomial, ...]:
    """Return the polynomials inside of an atom."""
    if isinstance(atom, Symbol):
        return ()
    return atom.operands if isinstance(atom, MinMax) else (atom.operand,)


def symbols_in(value: Polynomial) -> dict[Symbol, None]:
    """Return the symbols of a polynomial, also those inside of atoms, in order of appearance."""
    found: dict[Symbol, None] = {}
    for atom in value.atoms:
        if isinstance(atom, Symbol):
            found[atom] = None
        for operand in operands_of(atom):
            found.update(symbols_in(operand))
    return found
