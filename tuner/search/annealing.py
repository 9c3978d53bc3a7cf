"""Simulated annealing of many chains at once.

A thousand chains make each step together, so that validity, features and the model are evaluated
for a thousand rows at a time, which amortises the overhead of a step. As in AutoTVM (Chen et al.,
Learning to Optimize Tensor Programs, 2018, section 3.3) the energy is the model's score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcopt.schedules.spaces.space import Space
from tcopt.tuner.search.moves import Points, Score, Scores, best_of, is_valid, mutate


@dataclass(frozen=True)
class Annealing:
    """Parameters of annealing.

    Attributes:
        steps: of each chain.
        patience: maximum number of steps without an improvement of the best score.
        warmth: the initial temperature, in standard deviations of the chains' scores. It falls to
            zero.
    """

    steps: int = 50
    patience: int = 15
    warmth: float = 0.5


def anneal(
    space: Space,
    score: Score,
    starts: Points,
    count: int,
    rng: np.random.Generator,
    settings: Annealing | None = None,
) -> tuple[Points, Scores]:
    """Return the choices with the highest scores visited by the chains.

    Args:
        starts: a valid choice for each chain.
        count: maximum number of choices to return.
    Returns:
        Distinct choices, the best first, and their scores.
    """
    settings = settings or Annealing()
    points, scores = starts, score(starts)
    found, found_scores = best_of(points, scores, count)
    warmth = settings.warmth * float(np.std(scores))
    waited = 0
    for step in range(settings.steps):
        temperature = warmth * (1 - step / settings.steps)
        moved = mutate(space, points, rng)
        rows = np.flatnonzero(is_valid(space, moved))
        if len(rows):
            new = score(moved[rows])
            rise = new - scores[rows]
            taken = rise >= -temperature * rng.exponential(size=len(rows))
            points = points.copy()
            points[rows[taken]], scores[rows[taken]] = moved[rows[taken]], new[taken]
            best = found_scores[0]
            found, found_scores = best_of(
                np.concatenate([found, moved[rows]]), np.concatenate([found_scores, new]), count
            )
            waited = 0 if found_scores[0] > best else waited + 1
        if waited > settings.patience:
            break
    return found, found_scores
