"""Properties that hold for every schedule space."""

from __future__ import annotations

import numpy as np

from tcopt.schedules.spaces.space import Point, Space


def assert_formulas_agree(space: Space, rtol: float = 0) -> None:
    """Check that a space's formulas agree on columns of choices and on each choice alone."""
    points = np.stack([space.point(space.default()), *space.draw(60, np.random.default_rng(0))])
    k = space.at(points)
    columns = [space.valid(k), space.estimate(k)]
    for level in space.nest(k):
        columns += [level.variable, level.extent, level.kind]
    columns = [np.broadcast_to(each, len(points)) for each in columns]
    for row, point in enumerate(points):
        one = Point(space.choice(point))
        numbers = [space.valid(one), space.estimate(one)]
        for level in space.nest(one):
            numbers += [level.variable, level.extent, level.kind]
        np.testing.assert_allclose(numbers, [each[row] for each in columns], rtol=rtol, atol=0)
