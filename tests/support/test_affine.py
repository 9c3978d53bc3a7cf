"""Index arithmetic against brute-force evaluation."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from tcopt.support.arithmetic.affine import bounds, compact_map, linear_sum, simplify, substitute
from tcopt.support.arithmetic.intervals import extents_to_ranges

DIMS = 3
d0, d1, d2 = (AffineDimExpr(i) for i in range(DIMS))

leaves = st.one_of(
    st.integers(0, DIMS - 1).map(AffineDimExpr),
    st.integers(-9, 9).map(AffineConstantExpr),
)


def combine(children):
    positive = st.integers(1, 8).map(AffineConstantExpr)
    factor = st.integers(-5, 5).map(AffineConstantExpr)
    division = st.sampled_from(
        [AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.CeilDiv, AffineBinaryOpKind.Mod]
    )
    return st.one_of(
        st.builds(AffineBinaryOpExpr, st.just(AffineBinaryOpKind.Add), children, children),
        st.builds(AffineBinaryOpExpr, st.just(AffineBinaryOpKind.Mul), children, factor),
        st.builds(AffineBinaryOpExpr, division, children, positive),
    )


expressions = st.recursive(leaves, combine, max_leaves=8)
boxes = st.lists(
    st.tuples(st.integers(-4, 4), st.integers(0, 5)).map(lambda p: (p[0], p[0] + p[1])),
    min_size=DIMS,
    max_size=DIMS,
)


def points(ranges):
    return itertools.product(*(range(low, high + 1) for low, high in ranges))


def value(expr: AffineExpr, point):
    return expr.eval(list(point), [])


@given(expressions, boxes)
def test_simplify_keeps_every_value(expr, ranges):
    simple = simplify(expr, ranges)
    for point in points(ranges):
        assert value(simple, point) == value(expr, point)


@given(expressions, boxes)
def test_simplify_is_stable(expr, ranges):
    simple = simplify(expr, ranges)
    assert simplify(simple, ranges) == simple


@given(expressions, boxes)
def test_bounds_hold(expr, ranges):
    low, high = bounds(expr, ranges)
    values = [value(expr, point) for point in points(ranges)]
    assert low <= min(values)
    assert max(values) <= high


@given(expressions, boxes)
def test_bounds_of_linear_expressions_are_reached(expr, ranges):
    if linear_sum(expr, ranges).is_linear:
        values = [value(expr, point) for point in points(ranges)]
        assert bounds(expr, ranges) == (min(values), max(values))


@given(expressions, st.lists(expressions, min_size=DIMS, max_size=DIMS), boxes)
def test_substitution_composes(expr, dims, ranges):
    composed = substitute(expr, dims)
    for point in itertools.islice(points(ranges), 20):
        assert value(composed, point) == value(expr, [value(d, point) for d in dims])


@given(st.lists(expressions, min_size=1, max_size=3), boxes)
def test_compact_map_drops_only_unused_dimensions(exprs, ranges):
    map, kept = compact_map(exprs, DIMS)
    assert map.num_dims == len(kept)
    for point in itertools.islice(points(ranges), 20):
        assert list(map.eval([point[i] for i in kept], [])) == [value(e, point) for e in exprs]


@pytest.mark.parametrize(
    ("expr", "extents", "expected"),
    [
        # A split and fused loop is the loop itself.
        ((d0 * 4 + d1) // 4, (8, 4, 1), "d0"),
        ((d0 * 4 + d1) % 4, (8, 4, 1), "d1"),
        ((d0 // 7) * 7 + d0 % 7, (100, 1, 1), "d0"),
        # An axis of extent 1 is its only value.
        (d0 + d2, (8, 1, 1), "d0"),
        # Common factors cancel, leaving a division.
        ((d0 * 6) // 4, (8, 1, 1), "((d0 * 3) floordiv 2)"),
        (d0 // 2 // 3, (100, 1, 1), "(d0 floordiv 6)"),
    ],
)
def test_simplify_examples(expr, extents, expected):
    assert str(simplify(expr, extents_to_ranges(extents))) == expected


def test_a_product_of_dimensions_is_rejected():
    product = AffineBinaryOpExpr(AffineBinaryOpKind.Mul, d0, d1)
    with pytest.raises(ValueError, match="not affine"):
        simplify(product, extents_to_ranges((4, 4, 1)))
