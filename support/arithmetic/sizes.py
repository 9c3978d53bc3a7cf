"""Symbolic sizes: integers that are known when a program runs, with ranges known before.

    n = named_size("n", 1, 512)
    (2 * n + 5) // 2    # n + 2
    n * 12 % 12         # 0, an int
    n >= 1              # True: the range decides
    n < 8               # raises UndecidedSize

An extent is an int or a `Size`; results that are constant are ints. A size is not an int, and its
conversion to one raises UndecidedSize, so that code that needs a number fails instead of using a
wrong one.

`==` compares canonical forms: equal sizes are equal for all values of their symbols, while sizes
that differ may still be equal for some values. `n == 1` is False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from operator import index
from typing import TYPE_CHECKING, Never, TypeAlias

from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.size_bounds import polynomial_bounds
from tcopt.support.arithmetic.size_division import divide, extremum, floor_divide
from tcopt.support.arithmetic.size_printing import SymbolText, polynomial_text
from tcopt.support.arithmetic.size_terms import (
    MinMax,
    Polynomial,
    Quotient,
    Symbol,
    add,
    constant,
    multiply,
    of_atom,
    scale,
    symbols_in,
)
from tcopt.support.errors import InputError, UndecidedSize

if TYPE_CHECKING:
    from xdsl.ir.affine import AffineExpr


@dataclass(frozen=True, slots=True)
class Size:
    """An integer expression over named sizes; see `named_size`."""

    value: Polynomial

    def __add__(self, other: Extent) -> Extent:
        return _binary(self, other, add)

    __radd__ = __add__

    def __sub__(self, other: Extent) -> Extent:
        return _binary(self, other, lambda a, b: add(a, b, -1))

    def __rsub__(self, other: Extent) -> Extent:
        return _binary(self, other, lambda a, b: add(b, a, -1))

    def __mul__(self, other: Extent) -> Extent:
        return _binary(self, other, multiply)

    __rmul__ = __mul__

    def __floordiv__(self, other: Extent) -> Extent:
        return _binary(self, other, _divide)

    def __rfloordiv__(self, other: Extent) -> Extent:
        return _binary(self, other, lambda a, b: _divide(b, a))

    def __mod__(self, other: Extent) -> Extent:
        return _binary(self, other, _remainder)

    def __rmod__(self, other: Extent) -> Extent:
        return _binary(self, other, lambda a, b: _remainder(b, a))

    def __divmod__(self, other: Extent) -> tuple[Extent, Extent]:
        return self // other, self % other

    def __rdivmod__(self, other: Extent) -> tuple[Extent, Extent]:
        return other // self, other % self

    def __neg__(self) -> Extent:
        return _extent(scale(self.value, -1))

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Extent:
        return self if self >= 0 else -self

    def __truediv__(self, other: object) -> Never:
        raise self._without_value()

    __rtruediv__ = __truediv__

    def __index__(self) -> Never:
        raise self._without_value()

    __int__ = __index__
    __float__ = __index__

    def _without_value(self) -> UndecidedSize:
        return UndecidedSize(str(self), "=", "?")

    def __lt__(self, other: Extent) -> bool:
        return _decide(self, other, "<", lambda low, high: _below(low, high, 0))

    def __le__(self, other: Extent) -> bool:
        return _decide(self, other, "<=", lambda low, high: _below(low, high, 1))

    def __gt__(self, other: Extent) -> bool:
        return _decide(self, other, ">", lambda low, high: _below(-high, -low, 0))

    def __ge__(self, other: Extent) -> bool:
        return _decide(self, other, ">=", lambda low, high: _below(-high, -low, 1))

    def __bool__(self) -> bool:
        low, high = polynomial_bounds(self.value)
        if low > 0 or high < 0 or low == high:
            return low != 0
        raise UndecidedSize(str(self), "!=", "0")

    def __str__(self) -> str:
        return polynomial_text(self.value)

    __repr__ = __str__


Extent: TypeAlias = int | Size
"""A size that is a number, or one that is known when a program runs."""


def _extent(value: Polynomial) -> Extent:
    return value.constant if value.is_constant else Size(value)


def _polynomial(value: object) -> Polynomial | None:
    """Return the polynomial of an extent; None for other objects, such as arrays."""
    if isinstance(value, Size):
        return value.value
    if isinstance(value, float):
        raise UndecidedSize("n", "=", str(value), "sizes are integers")
    # NumPy's integers are registered as `Integral`; its booleans are not.
    return constant(index(value)) if isinstance(value, Integral) else None


def _polynomial_of(value: Extent) -> Polynomial:
    found = _polynomial(value)
    if found is None:
        raise TypeError(f"{value!r} is not a size")
    return found


def _binary(
    a: Size, b: object, operation: Callable[[Polynomial, Polynomial], Polynomial]
) -> Extent:
    other = _polynomial(b)
    return NotImplemented if other is None else _extent(operation(a.value, other))


def _divide(a: Polynomial, b: Polynomial) -> Polynomial:
    if b.is_constant:
        return floor_divide(a, b.constant)
    found = divide(a, b)
    if found is None:
        raise UndecidedSize(polynomial_text(a), "floordiv", polynomial_text(b))
    return found


def _remainder(a: Polynomial, b: Polynomial) -> Polynomial:
    return add(a, multiply(b, _divide(a, b)), -1)


def _decide(a: Size, b: object, sign: str, decide: Callable[[int, int], bool | None]) -> bool:
    other = _polynomial(b)
    if other is None:
        return NotImplemented
    answer = decide(*polynomial_bounds(add(a.value, other, -1)))
    if answer is None:
        raise UndecidedSize(str(a), sign, polynomial_text(other))
    return answer


def _below(low: int, high: int, limit: int) -> bool | None:
    """Whether a value between bounds is below a limit; None if they do not decide."""
    return True if high < limit else False if low >= limit else None


def named_size(name: str, low: int, high: int, multiple: int = 1) -> Extent:
    """Return the size with a name and an inclusive range; an int if the range has one value.

    Args:
        multiple: number that divides all values of the size.

    Raises:
        InputError: the range is empty, or its ends are negative or not multiples.
    """
    if not 0 <= low <= high or multiple < 1 or low % multiple or high % multiple:
        steps = f" in steps of {multiple}" if multiple != 1 else ""
        raise InputError(f"size {name!r} cannot have the range {low}..{high}{steps}")
    if low == high:
        return low
    return _extent(scale(of_atom(Symbol(name, low, high, multiple)), multiple))


def ceildiv(a: Extent, b: Extent) -> Extent:
    """Return the quotient of two extents, rounded up; the divisor is positive."""
    return (a + b - 1) // b


def round_up(a: Extent, multiple: Extent) -> Extent:
    """Return the least multiple that is not less than an extent."""
    return ceildiv(a, multiple) * multiple


def minimum(*extents: Extent) -> Extent:
    """Return the minimum of one or more extents."""
    return _extent(extremum(map(_polynomial_of, extents), is_maximum=False))


def maximum(*extents: Extent) -> Extent:
    """Return the maximum of one or more extents."""
    return _extent(extremum(map(_polynomial_of, extents), is_maximum=True))


def bounds_of(size: Extent) -> Range:
    """Return an inclusive range that has all values of an extent."""
    return polynomial_bounds(_polynomial_of(size))


def lower_bound(size: Extent) -> int:
    """Return a number that an extent is never less than."""
    return bounds_of(size)[0]


def upper_bound(size: Extent) -> int:
    """Return a number that an extent never exceeds."""
    return bounds_of(size)[1]


def size_text(size: Extent, symbol: SymbolText) -> str:
    """Return the text of an extent with another text for each symbol than its name."""
    return polynomial_text(_polynomial_of(size), symbol)


def coefficients(size: Extent) -> tuple[int, ...]:
    """Return numbers whose common divisors divide an extent for all values of its symbols."""
    if isinstance(size, Size):
        return size.value.constant, *(factor for _, factor in size.value.terms)
    return (size,)


def is_fixed(shape: Iterable[Extent]) -> bool:
    """Whether all extents of a shape are numbers."""
    return not any(isinstance(extent, Size) for extent in shape)


def symbols_of(size: Extent) -> tuple[Symbol, ...]:
    """Return the symbols of an extent, sorted by name."""
    return tuple(sorted(symbols_in(_polynomial_of(size)), key=lambda symbol: symbol.order))


def substitute(size: Extent, values: Mapping[str, Extent]) -> Extent:
    """Replace named sizes by extents; names without a value stay.

    Raises:
        InputError: the value of a name is not a multiple as declared.
    """
    return _substitute(_polynomial_of(size), values)


def _substitute(value: Polynomial, values: Mapping[str, Extent]) -> Extent:
    found: Extent = value.constant
    for monomial, factor in value.terms:
        product: Extent = factor
        for atom in monomial:
            if isinstance(atom, Symbol):
                part = _value_of(atom, values)
            elif isinstance(atom, MinMax):
                choose = maximum if atom.is_maximum else minimum
                part = choose(*(_substitute(each, values) for each in atom.operands))
            else:
                operand = _substitute(atom.operand, values)
                whole = operand // atom.divisor
                is_quotient = isinstance(atom, Quotient)
                part = whole if is_quotient else operand - atom.divisor * whole
            product = product * part
        found = found + product
    return found


def _value_of(symbol: Symbol, values: Mapping[str, Extent]) -> Extent:
    if symbol.name not in values:
        return _extent(of_atom(symbol))
    value = _extent(_polynomial_of(values[symbol.name]))
    if value % symbol.multiple != 0:
        raise InputError(
            f"size {symbol.name!r} cannot be {value}, which is not a multiple of {symbol.multiple}"
        )
    return value // symbol.multiple


def evaluate(size: Extent, values: Mapping[str, int]) -> int:
    """Return an extent as a number.

    Args:
        values: the value of each name in the extent. Ranges are not checked.

    Raises:
        KeyError: a name has no value.
        InputError: the value of a name is not a multiple as declared.
    """
    if isinstance(size, Size):
        for symbol in symbols_in(size.value):
            index(values[symbol.name])
    found = substitute(size, values)
    assert not isinstance(found, Size)
    return found


def solve(size: Size, value: int, known: Mapping[str, int]) -> tuple[str, int]:
    """Find the unknown name of a size from a measured extent: `past + 1 = 17` -> `past`, 16.

    Args:
        known: values of all other names in the size.

    Returns:
        The name and its value.

    Raises:
        InputError: no value in the range of the name gives this extent.
        UndecidedSize: the size does not have exactly one unknown name, in linear terms.
    """
    left = substitute(size, known)
    unknown = symbols_of(left)
    if not isinstance(left, Size) or len(unknown) != 1 or left.value.terms[0][0] != unknown:
        raise UndecidedSize(str(left), "=", str(value), "give the values of its names")
    (symbol,), ((_, factor),) = unknown, left.value.terms
    found, rest = divmod(value - left.value.constant, factor)
    low, high = symbol.range
    if rest or not low <= found <= high:
        steps = f" in steps of {symbol.multiple}" if symbol.multiple != 1 else ""
        raise InputError(
            f"{size} cannot be {value}: size {symbol.name!r} has the range"
            f" {symbol.low}..{symbol.high}{steps}"
        )
    return symbol.name, found * symbol.multiple


def hints(symbols: Iterable[Symbol], count: int) -> list[dict[str, int]]:
    """Return values of symbols for cost estimates: the least, geometric steps, and the greatest.

    All symbols grow together. There are `count` assignments at most, fewer if ranges are small.
    """
    found: list[dict[str, int]] = []
    own = sorted(symbols, key=lambda symbol: symbol.order)
    for step in range(count):
        share = step / (count - 1) if count > 1 else 1.0
        values = {symbol.name: _between(symbol, share) for symbol in own}
        if values not in found:
            found.append(values)
    return found


def hint_values(extent: Extent, count: int) -> list[int]:
    """Return positive values of an extent for cost estimates, in ascending order.

    Args:
        count: maximum number of values, see `hints`.
    """
    return sorted({max(evaluate(extent, hint), 1) for hint in hints(symbols_of(extent), count)})


def _between(symbol: Symbol, share: float) -> int:
    """Return the value at a share of a symbol's range, in geometric progression."""
    low, high = symbol.range
    shift = 1 if low == 0 else 0
    value = round((low + shift) * ((high + shift) / (low + shift)) ** share) - shift
    return min(max(value, low), high) * symbol.multiple


def to_affine(size: Extent, positions: Mapping[str, int]) -> AffineExpr | None:
    """Return an extent as an affine expression; None if it is not affine in its names.

    Args:
        positions: the dimension that has the value of each name.
    """
    from tcopt.support.arithmetic.size_affine import affine_polynomial

    return affine_polynomial(_polynomial_of(size), positions)


def product(shape: Sequence[Extent]) -> Extent:
    """Return the number of elements of a shape."""
    found: Extent = 1
    for extent in shape:
        found = found * extent
    return found
