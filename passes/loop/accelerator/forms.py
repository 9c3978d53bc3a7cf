"""Affine index expressions with fixed values for unrolled loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tcopt.dialects.loop.analysis import value_ranges
from tcopt.support.arithmetic.affine import Atom, Dim, FloorDiv, LinearSum, linear_sum

Values = Mapping[SSAValue, int]
"""The variables of unrolled loops, with their current values."""


@dataclass(frozen=True)
class LinearForm:
    """`base + sum(step * variable)` over the variables of loops that are not unrolled."""

    base: int
    steps: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def scaled(self, factor: int) -> LinearForm:
        """Multiply by a constant."""
        return LinearForm(self.base * factor, {v: s * factor for v, s in self.steps.items()})

    def plus(self, other: LinearForm) -> LinearForm:
        """Return the sum with another expression."""
        steps = dict(self.steps)
        for value, step in other.steps.items():
            steps[value] = steps.get(value, 0) + step
        return LinearForm(self.base + other.base, {v: s for v, s in steps.items() if s})


@dataclass(frozen=True)
class AccessForm:
    """An index expression, prepared for evaluation at many values of the unrolled loops."""

    total: LinearSum
    operands: tuple[SSAValue, ...]

    @staticmethod
    def of(expr: AffineExpr, operands: Sequence[SSAValue]) -> AccessForm:
        """Return the form of an expression over loop variables."""
        return AccessForm(linear_sum(expr, value_ranges(operands)), tuple(operands))

    def at(self, values: Values) -> LinearForm | None:
        """Evaluate at these values; None if it divides by a variable that has none."""
        return self._sum(self.total, values)

    def _sum(self, total: LinearSum, values: Values) -> LinearForm | None:
        base, steps = total.constant, dict[SSAValue, int]()
        for atom, factor in total.terms:
            found = self._atom(atom, values)
            if found is None:
                return None
            base += found.base * factor
            for value, step in found.steps.items():
                steps[value] = steps.get(value, 0) + step * factor
        return LinearForm(base, {v: s for v, s in steps.items() if s})

    def _atom(self, atom: Atom, values: Values) -> LinearForm | None:
        if isinstance(atom, Dim):
            value = self.operands[atom.position]
            return LinearForm(values[value]) if value in values else LinearForm(0, {value: 1})
        inner = self._sum(atom.operand, values)
        if inner is None or inner.steps:
            return None
        if isinstance(atom, FloorDiv):
            return LinearForm(inner.base // atom.divisor)
        return LinearForm(inner.base % atom.divisor)
