"""Mixed-radix digits of affine expressions.

An index such as `%jo * 16 + %ji` is a number in mixed radix. Its digits are variables or parts of
them: `%f floordiv 8` and `%f mod 8` are the two digits of `%f`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcopt.support.arithmetic.affine import Atom, Dim, FloorDiv, LinearSum, Mod, sum_range
from tcopt.support.arithmetic.intervals import Range


@dataclass(frozen=True)
class Digit:
    """`(source floordiv lower) mod extent`.

    Attributes:
        leading: whether this is the most significant digit of the source, so no `mod` is needed.
    """

    source: LinearSum
    lower: int
    extent: int
    leading: bool = False

    @property
    def dim(self) -> int | None:
        """Dimension that this is a digit of; None if the source is not a single dimension."""
        match self.source:
            case LinearSum(terms=((Dim(position=position), 1),), constant=0):
                return position
            case _:
                return None


def digit_of(atom: Atom, ranges: Sequence[Range]) -> Digit:
    """Return the digit that an atom is of its innermost source."""
    low, high = sum_range(LinearSum(((atom, 1),), 0), ranges)
    if isinstance(atom, Dim):
        return Digit(LinearSum(((atom, 1),), 0), 1, high - low + 1, leading=True)
    inner = _only_term(atom.operand)
    digit = None if inner is None else digit_of(inner, ranges)
    match atom:
        case FloorDiv():
            if digit is not None and digit.leading:
                extent = high - min(low, 0) + 1
                return Digit(digit.source, digit.lower * atom.divisor, extent, leading=True)
            if digit is not None and digit.extent % atom.divisor == 0:
                extent = digit.extent // atom.divisor
                return Digit(digit.source, digit.lower * atom.divisor, extent)
            return Digit(atom.operand, atom.divisor, high - min(low, 0) + 1, leading=True)
        case Mod():
            if digit is not None and (digit.leading or digit.extent % atom.divisor == 0):
                return Digit(digit.source, digit.lower, atom.divisor)
            return Digit(atom.operand, 1, atom.divisor)


def _only_term(total: LinearSum) -> Atom | None:
    match total:
        case LinearSum(terms=((inner, 1),), constant=0):
            return inner
        case _:
            return None
