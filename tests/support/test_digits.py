"""A digit equals its definition at every point."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tcopt.support.arithmetic.affine import linear_sum, to_expr
from tcopt.support.arithmetic.digits import digit_of

SIZES = st.integers(1, 9)


@st.composite
def quotients(draw: st.DrawFn) -> AffineExpr:
    """A dimension or a sum of two, with divisions and remainders in some order."""
    expr: AffineExpr = AffineDimExpr(0)
    if draw(st.booleans()):
        expr = expr * draw(SIZES) + AffineDimExpr(1)
    for _ in range(draw(st.integers(0, 3))):
        expr = expr // draw(SIZES) if draw(st.booleans()) else expr % draw(SIZES)
    return expr


@given(quotients(), SIZES, SIZES)
def test_a_digit_is_the_term(expr: AffineExpr, first: int, second: int) -> None:
    total = linear_sum(expr, ((0, first - 1), (0, second - 1)))
    for atom, _ in total.terms:
        digit = digit_of(atom, ((0, first - 1), (0, second - 1)))
        source = to_expr(digit.source)
        term = linear_sum(expr, ((0, first - 1), (0, second - 1)))
        term = to_expr(type(term)(((atom, 1),), 0))
        for point in ((i, j) for i in range(first) for j in range(second)):
            value = source.eval(point, ()) // digit.lower
            assert 0 <= term.eval(point, ()) < digit.extent
            assert term.eval(point, ()) == (value if digit.leading else value % digit.extent)


def test_digits_of_one_dimension_have_it() -> None:
    ranges = ((0, 63),)
    parts = {
        AffineDimExpr(0) // 8: (8, 8, True),
        AffineDimExpr(0) % 8: (1, 8, False),
        AffineDimExpr(0) // 4 % 4: (4, 4, False),
        AffineDimExpr(0) % 32 // 8: (8, 4, False),
        AffineDimExpr(0) // 4 // 4: (16, 4, True),
        AffineDimExpr(0) // 10: (10, 7, True),
    }
    for expr, expected in parts.items():
        ((atom, _),) = linear_sum(expr, ranges).terms
        digit = digit_of(atom, ranges)
        assert digit.dim == 0 and (digit.lower, digit.extent, digit.leading) == expected
