"""Searches: valid choices without duplicates, and better than random in fewer trials."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
import pytest

from searches.tuner_simulation import MACHINE, best_speed, new_search, simulate
from searches.tuner_spaces import ProductSpace
from tcopt.schedules.spaces.closed import Closed
from tcopt.schedules.spaces.space import Choice, Column, Knob, LoopLevel, Operand, Point, Space
from tcopt.support.arithmetic.columns import where
from tcopt.support.errors import InputError
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.search.annealing import anneal
from tcopt.tuner.search.distinct import signatures
from tcopt.tuner.search.enumeration import Enumeration
from tcopt.tuner.search.evolution import evolve
from tcopt.tuner.search.moves import best_of, cross, draw_valid, is_valid, mutate
from tcopt.tuner.search.proposer import Arm, Proposer
from tcopt.tuner.task_search import SearchTrial, Strategy, TaskSearch


class RareSpace(ProductSpace):
    """Very few of many choices are valid: the default and its neighbourhood."""

    def valid(self, k: Point) -> Column:
        chosen = self.complete({"rows": 4, "vectors": 6})
        same = [getattr(k, name) == value for name, value in chosen.items() if "part" in name]
        return super().valid(k) & np.logical_and.reduce(same)

    def usual(self, k: Point) -> Column:
        return super().valid(k)


class TwoLoops(Space):
    """The order of two loops, and a knob independent of it."""

    def __init__(self, first: int, second: int):
        self.extents = first, second
        super().__init__([Knob("order", (0, 1), ("as they are", "swapped")), Knob("copy", (0, 1))])

    @property
    def untold(self) -> tuple[str, ...]:
        return ("copy",)

    def valid(self, k: Point) -> Column:
        return True

    def estimate(self, k: Point) -> Column:
        return k.order

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        first, second = self.extents
        return [
            LoopLevel(where(k.order == 0, 0, 1), where(k.order == 0, first, second)),
            LoopLevel(where(k.order == 0, 1, 0), where(k.order == 0, second, first)),
        ]

    def operands(self) -> Sequence[Operand]:
        return [Operand(self.extents, 4, ((1, 0), (0, 1)), is_output=True)]


class TinySpace(ProductSpace):
    """A space with two values for each knob."""

    def __init__(self) -> None:
        super().__init__(197, 768, 768)
        self.knobs = tuple(Knob(k.name, k.values[:2], k.labels[:2]) for k in self.knobs)

    def complete(self, leading: Choice) -> dict[str, int]:
        return {knob.name: knob.values[0] for knob in self.knobs} | dict(leading)


SPACE = ProductSpace(197, 768, 768)
WIDE = ProductSpace(197, 768, 768, wide=True)


def test_a_move_changes_one_knob(rng: np.random.Generator) -> None:
    points = WIDE.draw(500, rng)
    moved = mutate(WIDE, points, rng)
    assert ((moved != points).sum(axis=1) == 1).all()
    sizes = [len(knob.values) for knob in WIDE.knobs]
    assert (moved >= 0).all() and (moved < sizes).all()
    changed = (moved != points).any(axis=0)
    assert changed.all()


def test_a_child_has_each_knob_from_a_parent(rng: np.random.Generator) -> None:
    first, second = WIDE.draw(100, rng), WIDE.draw(100, rng)
    child = cross(first, second, rng)
    assert ((child == first) | (child == second)).all()
    assert (child != first).any() and (child != second).any()


@pytest.mark.parametrize("space", [SPACE, WIDE, RareSpace(197, 768, 768, wide=True)])
def test_what_is_drawn_is_valid(space: ProductSpace, rng: np.random.Generator) -> None:
    points = draw_valid(space, 300, rng)
    assert points.shape == (300, len(space.knobs))
    assert is_valid(space, points).all()
    assert len(np.unique(points, axis=0)) > 100


def test_a_space_without_knobs_has_one_choice(rng: np.random.Generator) -> None:
    points = draw_valid(Closed(), 3, rng)
    assert points.shape == (3, 0)
    assert mutate(Closed(), points, rng).shape == (3, 0)
    proposer = Proposer([Arm("fallback", Closed(), MACHINE)])
    assert [p.choice for p in proposer.first(8)] == [{}]
    assert proposer.random(4) == []


def test_the_best_are_in_order_and_once() -> None:
    points = np.asarray([[1, 2], [3, 4], [1, 2], [5, 6]])
    found, scores = best_of(points, np.asarray([1.0, 3.0, 1.0, 2.0]), 3)
    assert found.tolist() == [[3, 4], [5, 6], [1, 2]]
    assert scores.tolist() == [3.0, 2.0, 1.0]


def test_small_spaces_are_enumerated(rng: np.random.Generator) -> None:
    assert Enumeration.suits(SPACE) and not Enumeration.suits(WIDE)
    points = Enumeration(SPACE).points
    assert is_valid(SPACE, points).all()
    found = signatures(SPACE, points)
    assert len(points) == len(set(found))
    assert set(signatures(SPACE, draw_valid(SPACE, 2000, rng))) <= set(found)


def test_choices_that_make_the_same_loops_are_one() -> None:
    """Moving a loop with a single iteration is not another order."""
    points = TwoLoops(8, 1).points(range(4))
    assert len(set(signatures(TwoLoops(8, 1), points).tolist())) == 2
    assert len(set(signatures(TwoLoops(8, 4), points).tolist())) == 4
    proposer = Proposer([Arm("a", TwoLoops(8, 1), MACHINE)])
    assert len(proposer.best_by_score(8, lambda arm, p: arm.by_estimate(p))) == 2
    assert proposer.random(4) == []


def test_what_has_one_choice_is_measured_once_and_counts_as_no_trial() -> None:
    arms = [Arm("a", SPACE, MACHINE), Arm("only", Closed(), MACHINE)]
    for strategy in Strategy:
        search = TaskSearch("task", arms, Progress(1.0, 0), strategy)
        found = search.propose(4)
        assert [p.rule for p in found].count("only") == 1 and len(found) == 5
        search.add(
            [SearchTrial(p.rule, p.choice, p.origin, "ok", 0.5, high=1.0) for p in found], 1.0
        )
        assert search.progress.trials == 4 and len(search.trials) == 5
        assert "only" not in {p.rule for p in search.propose(4)}
        assert search.progress.best == 0.5


def test_a_rule_that_is_slow_is_seldom_drawn() -> None:
    proposer = Proposer([Arm("a", SPACE, MACHINE), Arm("b", WIDE, MACHINE)], seed=3)
    rules = [p.rule for p in proposer.random(200, {"b": 0.05})]
    assert 0 < rules.count("b") < 40


def test_annealing_and_evolution_come_near_the_optimum(rng: np.random.Generator) -> None:
    best = Enumeration(SPACE).best(lambda p: -SPACE.time_ns(p), 1)[1][0]
    starts = draw_valid(SPACE, 256, rng)
    at_random = np.max(-SPACE.time_ns(starts))
    for search in (anneal, evolve):
        found, scores = search(SPACE, lambda p: -SPACE.time_ns(p), starts, 16, rng)
        assert is_valid(SPACE, found).all()
        assert (np.diff(scores) <= 0).all()
        assert scores[0] >= at_random
        assert scores[0] >= 1.03 * best  # Negative times: within 3 %.


def test_nothing_is_proposed_twice() -> None:
    proposer = Proposer([Arm("a", SPACE, MACHINE), Arm("b", WIDE, MACHINE)], seed=3)
    proposer.saw("a", SPACE.default())
    found = proposer.first(20)
    found += proposer.random(30)
    good = [(p.rule, p.choice) for p in found[:8]]
    found += proposer.best_by_score(30, lambda arm, points: arm.by_estimate(points), good)
    keys = [p.key for p in found]
    assert len(keys) == len(set(keys)) == 80
    assert ("a", *SPACE.default().values()) not in keys
    assert {p.rule for p in found} == {"a", "b"}
    for proposal in found:
        space = SPACE if proposal.rule == "a" else WIDE
        assert space.is_valid(proposal.choice)


def test_the_first_batch_has_something_of_each() -> None:
    proposer = Proposer([Arm("a", SPACE, MACHINE)], seed=1)
    winner = SPACE.default() | {"rows": 3, "steps": 2}
    foreign = {"rows": 7}
    found = proposer.first(20, [("a", winner), ("a", foreign), ("unknown", {})])
    origins = [p.origin for p in found]
    assert found[0].choice == SPACE.default()
    assert origins.count("winner") == 1 and found[1].choice == winner
    assert origins.count("random") == 8
    assert origins.count("estimate") == 10


def test_a_space_that_is_used_up_ends() -> None:
    small = TinySpace()
    proposer = Proposer([Arm("a", small, MACHINE)])
    count = sum(1 for _ in small.choices())
    assert len(proposer.best_by_score(10 * count, lambda arm, p: arm.by_estimate(p))) == count
    assert proposer.random(5) == []


def test_a_task_without_rules_is_refused() -> None:
    with pytest.raises(InputError, match="no rule applies"):
        Proposer([])


@pytest.mark.nightly
def test_equal_seeds_search_alike() -> None:
    pytest.importorskip("lightgbm", reason="the model is LightGBM's")

    def trials(seed: int) -> list[object]:
        search = new_search(WIDE, seed=seed)
        simulate(search, 32)
        return [(t.choice, t.ratio) for t in search.trials]

    assert trials(1) == trials(1)
    assert trials(1) != trials(2)


@pytest.mark.nightly
@pytest.mark.parametrize("wide", [False, True])
def test_a_model_finds_good_choices_in_fewer_trials(wide: bool) -> None:
    pytest.importorskip("lightgbm", reason="the model is LightGBM's")
    space = ProductSpace(197, 768, 768, wide=wide)
    speeds: dict[Strategy, list[float]] = {}
    for strategy in Strategy:
        runs = [simulate(new_search(space, strategy, seed), 80) for seed in range(2)]
        speeds[strategy] = [median(run[n] for run in runs) for n in range(min(map(len, runs)))]
    learned, drawn = speeds[Strategy.MODEL], speeds[Strategy.RANDOM]
    assert learned[56] > drawn[-1]
    assert learned[-1] > speeds[Strategy.ESTIMATE][-1]
    if not wide:
        assert learned[-1] >= 0.95 * best_speed(space)


@pytest.mark.nightly
def test_what_other_tasks_taught_helps_at_once() -> None:
    pytest.importorskip("lightgbm", reason="the model is LightGBM's")
    other = new_search(ProductSpace(128, 3072, 768))
    simulate(other, 96)
    space = ProductSpace(197, 768, 1024)
    cold = [simulate(new_search(space, seed=seed), 24)[-1] for seed in range(3)]
    warm = [simulate(new_search(space, seed=seed), 24, other.groups())[-1] for seed in range(3)]
    assert median(warm) > median(cold)


def test_the_default_is_measured_first_also_where_a_model_knows_better() -> None:
    pytest.importorskip("lightgbm", reason="the model is LightGBM's")
    other = new_search(ProductSpace(128, 3072, 768))
    simulate(other, 48)
    search = new_search(SPACE)
    simulate(search, 8, other.groups())
    assert search.trials[0].choice == SPACE.default() and search.default == search.trials[0]
    assert [trial.origin for trial in search.trials].count("model") >= 2


def test_failures_are_no_best() -> None:
    search = new_search(SPACE, Strategy.RANDOM)
    simulate(search, 64)
    failed = [trial for trial in search.trials if not trial.ran]
    assert failed and all(trial.choice["rows"] == 15 for trial in failed)
    assert search.best is not None and search.best.ran
    (group,) = search.groups()
    assert (group.speeds == 0).sum() == len(failed)


def test_earlier_trials_are_taken_up() -> None:
    first = new_search(SPACE, Strategy.RANDOM)
    simulate(first, 32)
    again: TaskSearch = new_search(SPACE, Strategy.RANDOM)
    again.add(first.trials, 10.0)
    assert again.best == first.best
    keys = {tuple(t.choice.values()) for t in first.trials}
    assert not keys & {tuple(p.choice.values()) for p in again.propose(32)}


@pytest.mark.parametrize("space", [SPACE, WIDE])
def test_nothing_asked_for_is_nothing_found(space: ProductSpace) -> None:
    """The only trial of a batch may be drawn at random."""
    arm = Arm("a", space, MACHINE)
    rng = np.random.default_rng(0)
    points, scores = arm.search(arm.by_estimate, space.draw(0, rng), 0, 16, rng)
    assert points.shape == (0, len(space.knobs)) and not len(scores)
