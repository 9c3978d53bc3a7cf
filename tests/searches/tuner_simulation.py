"""Searches of spaces with synthetic times: sessions without code or clock."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from searches.tuner_spaces import ProductSpace
from tcopt.tuner.features import MachineFacts
from tcopt.tuner.model import ExampleGroup, ModelSettings, Ranker
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.search.proposer import Arm, Proposal
from tcopt.tuner.task_search import SearchTrial, Strategy, TaskSearch

MACHINE = MachineFacts(cores=2, registers=32, vector_bytes=64, l1=32 << 10, l2=1 << 20, l3=32 << 20)

NOISE = 0.02
"""Noise of a time, as a standard deviation of its logarithm."""


def new_search(
    space: ProductSpace, strategy: Strategy = Strategy.MODEL, seed: int = 0, key: str = ""
) -> TaskSearch:
    """The search of one space."""
    arm = Arm("cpu-matmul", space, MACHINE)
    return TaskSearch(key or str(space.sizes), [arm], Progress(1e6, 0), strategy, seed=seed)


def measured(search: TaskSearch, proposals: Sequence[Proposal]) -> list[SearchTrial]:
    """Return a noisy measurement; tiles of 15 rows fail."""
    found: list[SearchTrial] = []
    for proposal in proposals:
        arm = search.proposer.arm(proposal.rule)
        assert arm is not None
        space = arm.space
        assert isinstance(space, ProductSpace)
        points = np.stack([space.point(c) for c in (proposal.choice, arm.default)])
        time, default = space.time_ns(points)
        rng = np.random.default_rng([search.seed, len(search.trials) + len(found)])
        ratio = float(time / default * np.exp(rng.normal(0, NOISE)))
        fails = proposal.choice["rows"] == 15
        status, ratio = ("crash", inf) if fails else ("ok", ratio)
        found.append(
            SearchTrial(
                proposal.rule,
                proposal.choice,
                proposal.origin,
                status,
                ratio,
                proposal.score,
                0.98 * ratio,
                1.02 * ratio,
            )
        )
    return found


def simulate(
    search: TaskSearch, trials: int, others: Sequence[ExampleGroup] = (), batch: int = 8
) -> list[float]:
    """Run a search with the given trials; return the best noise-free speed after each."""
    ranker = Ranker(ModelSettings(trees=25, seed=search.seed))
    while len(search.trials) < trials:
        if search.strategy is Strategy.MODEL:
            ranker.learn([*others, *search.groups()], search.key, len(search.trials))
        proposals = search.propose(min(batch, trials - len(search.trials)), ranker)
        if not proposals:
            break
        search.add(measured(search, proposals), float(len(proposals)))
    return true_speeds(search)


def true_speeds(search: TaskSearch) -> list[float]:
    """Return the speed-up over the default of the best of the first n trials."""
    arm = search.arms[0]
    assert isinstance(arm.space, ProductSpace)
    default = arm.space.time_ns(arm.space.point(arm.default)[None])[0]
    ran = [trial.choice for trial in search.trials if trial.ran]
    times = arm.space.time_ns(np.stack([arm.space.point(choice) for choice in ran]))
    return list(np.maximum.accumulate(default / times))


def best_speed(space: ProductSpace) -> float:
    """Return the optimum of a small space."""
    arm = Arm("cpu-matmul", space, MACHINE)
    assert arm.enumeration is not None
    times = space.time_ns(arm.enumeration.points)
    return float(space.time_ns(space.point(arm.default)[None])[0] / times.min())
