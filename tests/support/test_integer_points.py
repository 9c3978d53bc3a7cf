"""Systems of integer constraints, compared with enumerating all points."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import pytest
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tcopt.support.arithmetic.affine import linear_sum
from tcopt.support.arithmetic.integer_points import System, determines
from tcopt.support.arithmetic.intervals import Range

Bounds = tuple[AffineExpr, int, int]


def _expr(rng: random.Random, dims: int, depth: int = 2) -> AffineExpr:
    total: AffineExpr = AffineConstantExpr(rng.randint(-3, 3))
    for _ in range(rng.randint(1, 3)):
        term: AffineExpr = AffineDimExpr(rng.randrange(dims)) * rng.choice([1, 1, 2, 3, 8, -1, -4])
        if depth and rng.random() < 0.35:
            inner, divisor = _expr(rng, dims, depth - 1), rng.choice([2, 3, 4, 8])
            part = inner // divisor if rng.random() < 0.5 else inner % divisor
            term = part * rng.choice([1, 1, 2, 4, -1])
        total = total + term
    return total


def _system(seed: int) -> tuple[list[Range], list[Bounds]]:
    rng = random.Random(seed)
    lows = [rng.randint(-2, 2) for _ in range(rng.randint(1, 3))]
    ranges = [(low, low + rng.randint(0, 5)) for low in lows]
    bounds: list[Bounds] = []
    for _ in range(rng.randint(1, 3)):
        low = rng.randint(-5, 5)
        bounds.append((_expr(rng, len(ranges)), low, low + rng.choice([0, 0, 1, 4])))
    return ranges, bounds


def _solve(ranges: list[Range], bounds: list[Bounds]) -> list[int] | None:
    system = System()
    dims = [system.variable(*each) for each in ranges]
    for expr, low, high in bounds:
        system.require(system.value(linear_sum(expr, ranges), dims), low, high)
    point = system.solve()
    return (
        None
        if point is None
        else [
            each.constant + sum(factor * point[v] for v, factor in each.terms.items())
            for each in dims
        ]
    )


def test_answers_are_exact() -> None:
    """A system has a solution if some point meets all constraints, and the returned point does."""
    feasible = 0
    for seed in range(150):
        ranges, bounds = _system(seed)
        points = [
            point
            for point in product(*(range(low, high + 1) for low, high in ranges))
            if all(low <= expr.eval(point, []) <= high for expr, low, high in bounds)
        ]
        found = _solve(ranges, bounds)
        assert (found is None) == (not points), seed
        assert found is None or tuple(found) in points, seed
        feasible += found is not None
    assert 10 < feasible < 140


X, Y, Z = (AffineDimExpr(position) for position in range(3))


@pytest.mark.parametrize(
    ("exprs", "extents", "known"),
    [
        ([X * 16 + Y], (1 << 20, 16), True),
        ([X * 15 + Y], (1 << 20, 16), False),
        ([(X * 16 + Y) // 7, (X * 16 + Y) % 7], (1 << 20, 16), True),
        ([(X * 16 + Y) // 7, (X * 16 + Y) % 6], (1 << 20, 16), False),
        ([X * 6 + Y * 3 + Z * 2], (1 << 20, 2, 3), True),
        ([X * 6 + Y * 3 + Z * 2], (1 << 20, 3, 3), False),
        ([X * 2 + Y, Y * 2 + Z], (1 << 20, 2, 2), True),
    ],
)
def test_large_ranges_need_no_enumeration(
    exprs: list[AffineExpr], extents: tuple[int, ...], known: bool
) -> None:
    ranges = [(0, extent - 1) for extent in extents]
    assert determines(exprs, ranges, range(len(extents))) == known


def _image_exprs() -> list[AffineExpr]:
    """Indices [32, 16, 58, 58, 4] of a padded image that blocks of 256 threads copy."""
    block, thread = AffineDimExpr(0), AffineDimExpr(1)
    place = block * 256 + thread
    return [
        block // 841,
        (place // 13456) % 16,
        (place // 232) % 58,
        (block * 64 + thread // 4) % 58,
        thread % 4,
    ]


def test_digits_may_come_from_different_forms_of_a_number() -> None:
    ranges = [(0, 26911), (0, 255)]
    assert determines(_image_exprs(), ranges, range(2))
    for position in range(5):
        exprs = _image_exprs()
        del exprs[position]
        assert not determines(exprs, ranges, range(2))


def _fused(rng: random.Random) -> tuple[list[AffineExpr], list[Range]]:
    """Digits of a fused and re-split loop, as in GPU schedules."""
    extents = [rng.choice((1, 2, 3, 4, 5, 6, 10)) for _ in range(rng.randint(1, 3))]
    inner = [rng.choice((1, 2, 3, 4, 8)) for _ in range(rng.randint(1, 2))]
    ranges: list[Range] = [(0, -(-prod(extents) // prod(inner)) - 1), *((0, n - 1) for n in inner)]
    fused: AffineExpr = AffineConstantExpr(0)
    for position in range(len(ranges)):
        fused = fused + AffineDimExpr(position) * prod(inner[position:])
    exprs: list[AffineExpr] = []
    for position, extent in enumerate(extents):
        part = fused // prod(extents[position + 1 :])
        exprs.append(part % extent if position else part)
    if rng.random() < 0.3:
        del exprs[rng.randrange(len(exprs))]
    return exprs, ranges


def test_digits_determine_the_loops_that_they_are_of() -> None:
    rng = random.Random(3)
    proved = 0
    for _ in range(40):
        exprs, ranges = _fused(rng)
        exprs += [AffineDimExpr(d) for d in range(len(ranges)) if rng.random() < 0.3]
        points = list(product(*(range(high + 1) for _, high in ranges)))
        for dim in range(len(ranges)):
            found: dict[tuple[int, ...], int] = {}
            is_known = all(
                found.setdefault(tuple(e.eval(point, []) for e in exprs), point[dim]) == point[dim]
                for point in points
            )
            assert determines(exprs, ranges, [dim]) == is_known, (exprs, ranges, dim)
            proved += is_known and ranges[dim][1] > 0
    assert proved > 20
