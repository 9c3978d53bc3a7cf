"""The loops that an expression distinguishes, compared with enumerating their iterations."""

from __future__ import annotations

import random
from itertools import product
from math import prod

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tcopt.schedules.analysis.distinct import _known_dims
from tcopt.support.arithmetic.affine import Range, linear_sum


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


def test_what_is_known_follows() -> None:
    rng = random.Random(3)
    proved = 0
    for _ in range(400):
        exprs, ranges = _fused(rng)
        still = [d for d in range(len(ranges)) if rng.random() < 0.3]
        known = _known_dims([linear_sum(e, ranges) for e in exprs], ranges, (), still)
        points = list(product(*(range(high + 1) for _, high in ranges)))
        for dim in known - {*still}:
            found: dict[tuple[int, ...], int] = {}
            for point in points:
                key = (*(e.eval(point, []) for e in exprs), *(point[d] for d in still))
                assert found.setdefault(key, point[dim]) == point[dim], (exprs, ranges, still, dim)
            proved += ranges[dim][1] > 0
    assert proved > 200
