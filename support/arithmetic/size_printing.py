"""Text of polynomials over named sizes, such as `(h + 1) floordiv 2`.

`size_parser` reads it, and returns an equal polynomial.
"""

from __future__ import annotations

from collections.abc import Callable

from tcopt.support.arithmetic.size_bounds import with_remainder
from tcopt.support.arithmetic.size_terms import (
    Atom,
    MinMax,
    Monomial,
    Polynomial,
    Quotient,
    Remainder,
    Symbol,
    operands_of,
)

SymbolText = Callable[[Symbol], str]


def symbol_name(symbol: Symbol) -> str:
    """Return the text of a symbol without its range."""
    return symbol.name


def polynomial_text(value: Polynomial, name: SymbolText = symbol_name) -> str:
    """Return the text of a polynomial.

    Args:
        name: returns the text of a symbol.
    """
    value = _with_remainders(value)
    parts = [_term_text(monomial, factor, name) for monomial, factor in value.terms]
    if value.constant or not parts:
        parts.append(str(value.constant))
    first, *others = parts
    # A leading minus of a term becomes the operator.
    return first + "".join(f" - {p[1:]}" if p.startswith("-") else f" + {p}" for p in others)


def _with_remainders(value: Polynomial) -> Polynomial:
    """Replace quotients by remainders where this removes terms, as in `n - 4 * (n floordiv 4)`."""
    for atom in value.atoms:
        if isinstance(atom, Quotient):
            form = with_remainder(value, atom)
            if len(form.terms) < len(value.terms):
                value = form
    return value


def _term_text(monomial: Monomial, factor: int, name: SymbolText) -> str:
    factors: list[str] = []
    for atom in monomial:
        # A multiple of a name's divisor is the name itself.
        if isinstance(atom, Symbol) and factor % atom.multiple == 0:
            factor //= atom.multiple
            factors.append(name(atom))
        else:
            factors.append(_atom_text(atom, name))
    if len(factors) == 1 and factor == 1:
        return factors[0]
    factors = [f"({f})" if _is_division(f) else f for f in factors]
    sign = "-" if factor < 0 else ""
    number = [str(abs(factor))] if abs(factor) != 1 else []
    return sign + " * ".join([*number, *factors])


def _is_division(text: str) -> bool:
    """Whether the text of an atom is a division, which needs parentheses in a product."""
    return text.endswith(tuple("0123456789")) and (" floordiv " in text or " mod " in text)


def _atom_text(atom: Atom, name: SymbolText) -> str:
    if isinstance(atom, Symbol):
        return name(atom) if atom.multiple == 1 else f"{name(atom)} floordiv {atom.multiple}"
    operands = [polynomial_text(operand, name) for operand in operands_of(atom)]
    if isinstance(atom, MinMax):
        return f"{'max' if atom.is_maximum else 'min'}({', '.join(operands)})"
    sign = "mod" if isinstance(atom, Remainder) else "floordiv"
    (operand,) = operands
    whole = f"({operand})" if " " in operand else operand
    return f"{whole} {sign} {atom.divisor}"
