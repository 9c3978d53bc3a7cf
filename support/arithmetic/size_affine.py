"""Conversion of polynomials over named sizes to affine expressions."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tcopt.support.arithmetic.size_terms import Atom, MinMax, Polynomial, Remainder, Symbol


def affine_polynomial(value: Polynomial, positions: Mapping[str, int]) -> AffineExpr | None:
    """Return a polynomial as an affine expression; None if it is not affine in its names.

    Args:
        positions: the dimension that has the value of each name.
    """
    found: AffineExpr | None = None
    for monomial, factor in value.terms:
        if len(monomial) != 1:
            return None
        (atom,) = monomial
        if isinstance(atom, Symbol) and factor % atom.multiple == 0:
            term: AffineExpr | None = AffineDimExpr(positions[atom.name])
            factor //= atom.multiple
        else:
            term = _affine_atom(atom, positions)
        if term is None:
            return None
        term = term if factor == 1 else term * factor
        found = term if found is None else found + term
    if found is None:
        return AffineConstantExpr(value.constant)
    return found + value.constant if value.constant else found


def _affine_atom(atom: Atom, positions: Mapping[str, int]) -> AffineExpr | None:
    if isinstance(atom, Symbol):
        dim = AffineDimExpr(positions[atom.name])
        return dim if atom.multiple == 1 else dim // atom.multiple
    if isinstance(atom, MinMax):
        return None
    operand = affine_polynomial(atom.operand, positions)
    if operand is None:
        return None
    if isinstance(atom, Remainder):
        return operand % atom.divisor
    return operand // atom.divisor
