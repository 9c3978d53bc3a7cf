"""Index expressions where outer loops have values and inner ones move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tcopt.dialects import loop
from tcopt.support.affine import Atom, Dim, FloorDiv, LinearSum, Range, linear_sum

Values = Mapping[SSAValue, int]
"""The variables of loops that are written out, and what they are now."""


@dataclass(frozen=True)
class Linear:
    """`base + sum(step * variable)` over the variables of loops that are not written out."""

    base: int
    steps: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def scaled(self, factor: int) -> Linear:
        """It times a number."""
        return Linear(self.base * factor, {v: s * factor for v, s in self.steps.items()})

    def plus(self, other: Linear) -> Linear:
        """The sum of both."""
        steps = dict(self.steps)
        for value, step in other.steps.items():
            steps[value] = steps.get(value, 0) + step
        return Linear(self.base + other.base, {v: s for v, s in steps.items() if s})


@dataclass(frozen=True)
class Form:
    """An index expression, ready to be asked for many values of the outer loops."""

    total: LinearSum
    operands: tuple[SSAValue, ...]

    @staticmethod
    def of(expr: AffineExpr, operands: Sequence[SSAValue]) -> Form:
        """The form of an expression over variables of loops."""
        return Form(linear_sum(expr, [_range(value) for value in operands]), tuple(operands))

    def at(self, values: Values) -> Linear | None:
        """The expression for these values; None where it divides by what moves."""
        return self._sum(self.total, values)

    def _sum(self, total: LinearSum, values: Values) -> Linear | None:
        base, steps = total.constant, dict[SSAValue, int]()
        for atom, factor in total.terms:
            found = self._atom(atom, values)
            if found is None:
                return None
            base += found.base * factor
            for value, step in found.steps.items():
                steps[value] = steps.get(value, 0) + step * factor
        return Linear(base, {v: s for v, s in steps.items() if s})

    def _atom(self, atom: Atom, values: Values) -> Linear | None:
        if isinstance(atom, Dim):
            value = self.operands[atom.position]
            return Linear(values[value]) if value in values else Linear(0, {value: 1})
        inner = self._sum(atom.operand, values)
        if inner is None or inner.steps:
            return None
        if isinstance(atom, FloorDiv):
            return Linear(inner.base // atom.divisor)
        return Linear(inner.base % atom.divisor)


def _range(value: SSAValue) -> Range:
    around = loop.loop_of(value)
    assert around is not None, "indices are over loops once blocks are lowered"
    return 0, max(around.trip_count - 1, 0)
