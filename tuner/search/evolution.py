"""Evolution: what two good choices have in common is kept, and the rest is mixed and changed."""

from __future__ import annotations

import numpy as np

from tcopt.schedules.spaces.space import Space
from tcopt.tuner.search.moves import Points, Score, Scores, best_of, cross, is_valid, mutate

MUTATED = 0.6
"""How many children have a knob changed as well."""


def evolve(
    space: Space,
    score: Score,
    parents: Points,
    count: int,
    rng: np.random.Generator,
    generations: int = 4,
) -> tuple[Points, Scores]:
    """The choices of the highest scores among some and their descendants.

    Args:
        parents: valid choices.
        count: how many to give back at most, and how many live on to the next generation.
    Returns:
        Choices, the best first, each once, and their scores.
    """
    found, scores = best_of(parents, score(parents), count)
    children_of = max(len(parents), count)
    for _ in range(generations):
        # The better one has more children: of two at random, the one in front.
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
