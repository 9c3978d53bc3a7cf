"""Moves in a space, for many choices at once: rows of positions among the knobs' values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tcopt.schedules.spaces.space import Space

Points = NDArray[np.int64]
"""Rows of positions: a column for each knob."""

Scores = NDArray[np.float64]

Score = Callable[[Points], Scores]
"""How good choices are likely to be, the higher the better; only the order counts."""

NEAR = 0.5
"""How many moves go to a value nearby, of knobs whose values have an order."""

_REACH = 2
"""Positions that a move nearby goes at most."""

_ROUNDS = 64
"""Draws for choices that are valid, before it is neighbours of what is known to be."""


def is_valid(space: Space, points: Points) -> NDArray[np.bool_]:
    """Which choices can be carried out."""
    if not len(points):
        return np.zeros(0, bool)
    valid = np.asarray(space.valid(space.at(points)))
    return np.broadcast_to(valid.astype(bool), len(points))


def mutate(space: Space, points: Points, rng: np.random.Generator) -> Points:
    """Each choice with one knob changed, valid or not."""
    count = len(points)
    sizes = np.asarray([len(knob.values) for knob in space.knobs])
    open_knobs = np.flatnonzero(sizes > 1)
    if not len(open_knobs):
        return points.copy()
    kinds = np.asarray([bool(knob.labels) for knob in space.knobs])
    which = open_knobs[rng.integers(0, len(open_knobs), count)]
    rows = np.arange(count)
    size, old = sizes[which], points[rows, which]
    # One of the others, each as likely.
    anywhere = (old + rng.integers(1, size)) % size
    step = rng.integers(1, _REACH + 1, count) * rng.choice((-1, 1), count)
    nearby = np.clip(old + step, 0, size - 1)
    near = (rng.random(count) < NEAR) & ~kinds[which] & (nearby != old)
    moved = points.copy()
    moved[rows, which] = np.where(near, nearby, anywhere)
    return moved


def cross(first: Points, second: Points, rng: np.random.Generator) -> Points:
    """Choices that have each knob from one of two parents."""
    return np.where(rng.random(first.shape) < 0.5, first, second)


def draw_valid(space: Space, count: int, rng: np.random.Generator) -> Points:
    """Valid choices at random, some maybe more than once.

    Where few of all choices are valid, the rest are walks that begin at the default.
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
    """Walk at random through valid choices, from valid ones."""
    for _ in range(steps):
        moved = mutate(space, points, rng)
        points = np.where(is_valid(space, moved)[:, None], moved, points)
    return points


def keys_of(points: Points) -> NDArray[np.int64]:
    """A number for each row, the same for equal rows, and hardly ever for others."""
    rng = np.random.default_rng(points.shape[1])
    factors = rng.integers(-(1 << 62), 1 << 62, (points.shape[1], 1), dtype=np.int64)
    with np.errstate(over="ignore"):
        return np.matmul(points, factors)[:, 0]


def best_of(points: Points, scores: Scores, count: int) -> tuple[Points, Scores]:
    """The rows of the highest scores, the best first, each once."""
    _, first = np.unique(keys_of(points), return_index=True)
    order = first[np.argsort(-scores[first], kind="stable")][:count]
    return points[order], scores[order]
