"""Bounds of polynomials over named sizes.

Interval arithmetic treats the occurrences of a symbol as independent. Three refinements keep
correlated occurrences tight:

- A symbol in which the polynomial is monotone is fixed at an end of its range, as in
  `n - n floordiv 2`.
- A multiple of a quotient is also evaluated by its remainder: `8 * ((n + 7) floordiv 8) - n` is
  `7 - (n + 7) mod 8`.
- A minimum or maximum equals one of its operands: `n - min(n, k)` is at least 0, which it is where
  the minimum is `n`, since the difference decreases with the minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

from tcopt.support.arithmetic.intervals import Range, meet, quotient, remainder
from tcopt.support.arithmetic.size_terms import (
    ZERO,
    Atom,
    MinMax,
    Monomial,
    Polynomial,
    Quotient,
    Remainder,
    Symbol,
    add,
    multiply,
    of_atom,
    operands_of,
    scale,
    split,
    symbols_in,
)
from tcopt.support.memo import memo

Ranges = Mapping[Symbol, Range]
"""Ranges of symbols that are narrower than those declared."""


@memo(8192)
def polynomial_bounds(value: Polynomial) -> Range:
    """Return inclusive bounds of a polynomial."""
    return _bounds(value, {})


def _bounds(value: Polynomial, ranges: Ranges) -> Range:
    if value.is_constant:
        return value.constant, value.constant
    return _least(value, ranges), -_least(scale(value, -1), ranges)


def _least(value: Polynomial, ranges: Ranges) -> int:
    """Return a lower bound of a polynomial."""
    found = _least_by_symbols(value, ranges)
    atoms = [atom for atom in _extrema_in(value) if len(atom.operands) <= _MOST_OPERANDS]
    if not atoms:
        return found
    # An operand can be chosen for each case of the extrema that are replaced before.
    atom = next((atom for atom in atoms if not _takes_any(value, atom, ranges)), atoms[0])
    choose = max if _takes_any(value, atom, ranges) else min
    cases = [_least(_replaced(value, atom, operand), ranges) for operand in atom.operands]
    return max(found, choose(cases))


def _takes_any(value: Polynomial, atom: MinMax, ranges: Ranges) -> bool:
    """Whether a polynomial with any operand for an extremum is not greater than with the extremum:
    it decreases with a minimum or increases with a maximum.
    """
    lows, highs = zip(*(_bounds(each, ranges) for each in atom.operands), strict=True)
    variable = Symbol("", min(lows), max(highs))
    low, high = _step(_replaced(value, atom, of_atom(variable)), variable, ranges)
    return low >= 0 if atom.is_maximum else high <= 0


_MOST_OPERANDS = 4
"""Maximum number of operands of an extremum that are evaluated one by one."""


def _extrema_in(value: Polynomial) -> Iterator[MinMax]:
    """Yield the minima and maxima in a polynomial, inner ones after those that contain them."""
    for atom in value.atoms:
        if isinstance(atom, MinMax):
            yield atom
        for operand in operands_of(atom):
            yield from _extrema_in(operand)


def _replaced(value: Polynomial, atom: Atom, by: Polynomial) -> Polynomial:
    """Replace an atom of a polynomial; the result may not be canonical."""
    found = Polynomial((), value.constant)
    for monomial, factor in value.terms:
        product = Polynomial((), factor)
        for each in monomial:
            product = multiply(product, _replaced_atom(each, atom, by))
        found = add(found, product)
    return found


def _replaced_atom(own: Atom, atom: Atom, by: Polynomial) -> Polynomial:
    if own == atom:
        return by
    operands = tuple(_replaced(operand, atom, by) for operand in operands_of(own))
    match own:
        case Symbol():
            return of_atom(own)
        case MinMax():
            return of_atom(MinMax(operands, own.is_maximum))
        case Quotient():
            return _plain_quotient(operands[0], own.divisor)
        case Remainder():
            return of_atom(Remainder(operands[0], own.divisor))


def _least_by_symbols(value: Polynomial, ranges: Ranges) -> int:
    """Return a lower bound of a polynomial, in which extrema are bounded by their operands."""
    fixed = dict(ranges)
    open_symbols = [s for s in symbols_in(value) if not _is_point(_range(s, ranges))]
    progress = True
    while open_symbols and progress:
        progress = False
        for symbol in tuple(open_symbols):
            low, high = _step(value, symbol, fixed)
            if low >= 0 or high <= 0:
                end = _range(symbol, fixed)[0 if low >= 0 else 1]
                fixed[symbol] = end, end
                open_symbols.remove(symbol)
                # Other symbols may be monotone now.
                progress = True
    if not open_symbols:
        return _interval(value, fixed)[0]
    return max(_interval(form, fixed)[0] for form in (value, *_forms_with_remainders(value)))


def _is_point(bounds: Range) -> bool:
    return bounds[0] == bounds[1]


def _range(symbol: Symbol, ranges: Ranges) -> Range:
    return ranges.get(symbol, symbol.range)


def _forms_with_remainders(value: Polynomial) -> Iterator[Polynomial]:
    """Yield equal polynomials that have `operand - remainder` for `divisor * quotient`."""
    quotients = [atom for atom in value.atoms if isinstance(atom, Quotient)]
    everything = value
    for atom in quotients:
        form = with_remainder(value, atom)
        if form != value:
            yield form
            everything = with_remainder(everything, atom)
    if len(quotients) > 1 and everything != value:
        yield everything


def with_remainder(value: Polynomial, atom: Quotient) -> Polynomial:
    """Replace multiples of a quotient by remainders where factors have digits of its divisor.

    `4 * (n floordiv 4)` becomes `n - n mod 4`, `2 * (n floordiv 4)` becomes
    `n floordiv 2 - (n floordiv 2) mod 2`.
    """
    found = Polynomial((), value.constant)
    for monomial, factor in value.terms:
        digit = gcd(factor, atom.divisor)
        if atom not in monomial or digit == 1:
            found = add(found, Polynomial(((monomial, factor),)))
            continue
        rest = list(monomial)
        rest.remove(atom)
        other = Polynomial(((tuple(rest), 1),)) if rest else Polynomial((), 1)
        operand = _plain_quotient(atom.operand, atom.divisor // digit)
        product = add(operand, of_atom(Remainder(operand, digit)), -1)
        found = add(found, multiply(product, other), factor // digit)
    return found


def _plain_quotient(value: Polynomial, divisor: int) -> Polynomial:
    """Return a quotient without the simplifications that need bounds."""
    whole, rest = split(value, divisor)
    return whole if rest == ZERO else add(whole, of_atom(Quotient(rest, divisor)))


def _interval(value: Polynomial, ranges: Ranges) -> Range:
    """Return bounds of a polynomial whose terms are taken as independent."""
    low = high = value.constant
    for monomial, factor in value.terms:
        least, most = _product((factor, factor), _monomial_range(monomial, ranges))
        low, high = low + least, high + most
    return low, high


def _monomial_range(monomial: Monomial, ranges: Ranges) -> Range:
    found = 1, 1
    for atom in dict.fromkeys(monomial):
        found = _product(found, _power(_atom_range(atom, ranges), monomial.count(atom)))
    return found


def _atom_range(atom: Atom, ranges: Ranges) -> Range:
    if isinstance(atom, Symbol):
        return _range(atom, ranges)
    if isinstance(atom, MinMax):
        lows, highs = zip(*(_bounds(each, ranges) for each in atom.operands), strict=True)
        choose = max if atom.is_maximum else min
        return choose(lows), choose(highs)
    rule = quotient if isinstance(atom, Quotient) else remainder
    return rule(_bounds(atom.operand, ranges), atom.divisor)


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _power(base: Range, exponent: int) -> Range:
    ends = [end**exponent for end in base]
    low, high = min(ends), max(ends)
    return (0 if exponent % 2 == 0 and base[0] < 0 < base[1] else low), high


def _step(value: Polynomial, symbol: Symbol, ranges: Ranges) -> Range:
    """Return bounds of the change of a polynomial when the atom of a symbol grows by 1."""
    low = high = 0
    for monomial, factor in value.terms:
        least, most = _product((factor, factor), _monomial_step(monomial, symbol, ranges))
        low, high = low + least, high + most
    return low, high


def _monomial_step(monomial: Monomial, symbol: Symbol, ranges: Ranges) -> Range:
    # x'y' - xy = (x' - x) y' + x (y' - y)
    step, known = (0, 0), (1, 1)
    for atom in monomial:
        own = _atom_range(atom, ranges)
        changes = _product(step, own), _product(known, _atom_step(atom, symbol, ranges))
        step = changes[0][0] + changes[1][0], changes[0][1] + changes[1][1]
        known = _product(known, own)
    return step


def _atom_step(atom: Atom, symbol: Symbol, ranges: Ranges) -> Range:
    if isinstance(atom, Symbol):
        return (1, 1) if atom == symbol else (0, 0)
    if isinstance(atom, MinMax):
        lows, highs = zip(*(_step(each, symbol, ranges) for each in atom.operands), strict=True)
        return min(lows), max(highs)
    low, high = _step(atom.operand, symbol, ranges)
    if isinstance(atom, Quotient):
        return low // atom.divisor, -(-high // atom.divisor)
    if low == high == 0:
        return 0, 0
    return meet((-atom.divisor + 1, atom.divisor - 1), (low - atom.divisor, high + atom.divisor))


def is_never_negative(value: Polynomial) -> bool:
    """Whether the bounds of a polynomial prove that it is at least 0."""
    return value == ZERO or polynomial_bounds(value)[0] >= 0
