"""Evolutionary search: children combine the knobs of two good choices, with mutations."""

from __future__ import annotations

import numpy as np

from tcopt.schedules.spaces.space import Space
from tcopt.tuner.search.moves import Points, Score, Scores, best_of, cross, is_valid, mutate

MUTATED = 0.6
"""Share of children that are also mutated."""


def evolve(
    space: Space,
    score: Score,
    parents: Points,
    count: int,
    rng: np.random.Generator,
    generations: int = 4,
) -> tuple[Points, Scores]:
    """Return the choices with the highest scores among parents and their descendants.

    Args:
        parents: valid choices.
        count: maximum number of choices to return, and of survivors of a generation.
    Returns:
        Distinct choices, the best first, and their scores.
    """
    found, scores = best_of(parents, score(parents), count)
    children_of = max(len(parents), count)
    for _ in range(generations):
        # Tournament selection: of two random members, the better one becomes a parent.
        chosen = rng.integers(0, len(found), (2, 2, children_of)).min(axis=1)
        children = cross(found[chosen[0]], found[chosen[1]], rng)
        changed = rng.random(children_of) < MUTATED
        children = np.where(changed[:, None], mutate(space, children, rng), children)
        children = children[is_valid(space, children)]
        if not len(children):
            continue
        found, scores = best_of(
            np.concatenate([found, children]), np.concatenate([scores, score(children)]), count
        )
    return found, scores
