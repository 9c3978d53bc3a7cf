"""Index values as linear forms: a constant plus coefficients times LLVM values."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple


class Linear(NamedTuple):
    """`sum(coefficient * name) + const`, terms sorted by name without zero coefficients."""

    terms: tuple[tuple[str, int], ...]
    const: int

    @staticmethod
    def constant(value: int) -> Linear:
        return Linear((), value)

    @staticmethod
    def symbol(name: str) -> Linear:
        return Linear(((name, 1),), 0)

    def scaled(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Linear(tuple((n, c * factor) for n, c in self.terms), self.const * factor)

    @property
    def divisor(self) -> int:
        """Return the largest number known to divide the value; 0 for the constant 0."""
        return gcd(self.const, *(c for _, c in self.terms))

    def divided(self, factor: int) -> Linear:
        """Return the quotient by a number that divides `divisor`."""
        return Linear(tuple((n, c // factor) for n, c in self.terms), self.const // factor)

    def plus(self, other: Linear) -> Linear:
        if not other.terms:
            return Linear(self.terms, self.const + other.const)
        if not self.terms:
            return Linear(other.terms, self.const + other.const)
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            total = terms.get(name, 0) + coefficient
            if total:
                terms[name] = total
            else:
                del terms[name]
        return Linear(tuple(sorted(terms.items())), self.const + other.const)


ZERO = Linear((), 0)
