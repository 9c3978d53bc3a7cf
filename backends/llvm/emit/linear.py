"""Index values as linear forms: a constant plus coefficients times LLVM values."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple


class LinearAddress(NamedTuple):
    """`sum(coefficient * name) + const`, terms sorted by name without zero coefficients."""

    terms: tuple[tuple[str, int], ...]
    const: int

    @staticmethod
    def constant(value: int) -> LinearAddress:
        return LinearAddress((), value)

    @staticmethod
    def symbol(name: str) -> LinearAddress:
        return LinearAddress(((name, 1),), 0)

    def scaled(self, factor: int) -> LinearAddress:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return LinearAddress(tuple((n, c * factor) for n, c in self.terms), self.const * factor)

    @property
    def divisor(self) -> int:
        """Return the largest number known to divide the value; 0 for the constant 0."""
        return gcd(self.const, *(c for _, c in self.terms))

    def divided(self, factor: int) -> LinearAddress:
        """Return the quotient by a number that divides `divisor`."""
        return LinearAddress(tuple((n, c // factor) for n, c in self.terms), self.const // factor)

    def plus(self, other: LinearAddress) -> LinearAddress:
        if not other.terms:
            return LinearAddress(self.terms, self.const + other.const)
        if not self.terms:
            return LinearAddress(other.terms, self.const + other.const)
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            total = terms.get(name, 0) + coefficient
            if total:
                terms[name] = total
            else:
                del terms[name]
        return LinearAddress(tuple(sorted(terms.items())), self.const + other.const)


ZERO = LinearAddress((), 0)
