"""Moves in a search space, vectorised over many choices: rows of positions in the knobs' values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tcopt.schedules.spaces.space import Space

Points = NDArray[np.int64]
"""Rows of positions, with a column for each knob."""

Scores = NDArray[np.float64]

Score = Callable[[Points], Scores]
"""Predicts the quality of choices, higher is better; only the order is meaningful."""

NEAR = 0.5
"""Share of moves to a nearby value, for knobs with ordered values."""

_REACH = 2
"""Maximum distance of a nearby move, in positions."""

_ROUNDS = 64
"""Number of random draws of valid choices, before random walks from the default are used."""


def is_valid(space: Space, points: Points) -> NDArray[np.bool_]:
    """Return which choices are valid."""
    if not len(points):
        return np.zeros(0, bool)
    valid = np.asarray(space.valid(space.at(points)))
    return np.broadcast_to(valid.astype(bool), len(points))


def mutate(space: Space, points: Points, rng: np.random.Generator) -> Points:
    """Return each choice with one random knob changed; the result may be invalid."""
    count = len(points)
    sizes = np.asarray([len(knob.values) for knob in space.knobs])
    open_knobs = np.flatnonzero(sizes > 1)
    if not len(open_knobs):
        return points.copy()
    kinds = np.asarray([bool(knob.labels) for knob in space.knobs])
    which = open_knobs[rng.integers(0, len(open_knobs), count)]
    rows = np.arange(count)
    size, old = sizes[which], points[rows, which]
    # One of the knob's other values, with equal probability.
    anywhere = (old + rng.integers(1, size)) % size
    step = rng.integers(1, _REACH + 1, count) * rng.choice((-1, 1), count)
    nearby = np.clip(old + step, 0, size - 1)
    near = (rng.random(count) < NEAR) & ~kinds[which] & (nearby != old)
    moved = points.copy()
    moved[rows, which] = np.where(near, nearby, anywhere)
    return moved


def cross(first: Points, second: Points, rng: np.random.Generator) -> Points:
    """Return choices that take each knob from one of two parents at random."""
    return np.where(rng.random(first.shape) < 0.5, first, second)


def draw_valid(space: Space, count: int, rng: np.random.Generator) -> Points:
    """Return random valid choices, possibly repeated.

    If valid choices are rare, the remainder are random walks from the default.
    """
    found: list[Points] = []
    missing = count
    for _ in range(_ROUNDS):
        if missing <= 0:
            break
        points = space.draw(max(count, 256), rng)
        points = points[is_valid(space, points)]
        found.append(points[:missing])
        missing -= len(found[-1])
    if missing > 0:
        points = np.repeat(space.point(space.default())[None], missing, axis=0)
        found.append(walk(space, points, 4 * points.shape[1], rng))
    return np.concatenate(found) if found else space.draw(0, rng)


def walk(space: Space, points: Points, steps: int, rng: np.random.Generator) -> Points:
    """Walk randomly through valid choices, starting from valid ones."""
    for _ in range(steps):
        moved = mutate(space, points, rng)
        points = np.where(is_valid(space, moved)[:, None], moved, points)
    return points


def keys_of(points: Points) -> NDArray[np.int64]:
    """Return a hash for each row."""
    rng = np.random.default_rng(points.shape[1])
    factors = rng.integers(-(1 << 62), 1 << 62, (points.shape[1], 1), dtype=np.int64)
    with np.errstate(over="ignore"):
        return np.matmul(points, factors)[:, 0]


def best_of(points: Points, scores: Scores, count: int) -> tuple[Points, Scores]:
    """Return the distinct rows with the highest scores, the best first."""
    _, first = np.unique(keys_of(points), return_index=True)
    order = first[np.argsort(-scores[first], kind="stable")][:count]
    return points[order], scores[order]
