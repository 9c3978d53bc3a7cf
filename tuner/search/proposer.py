"""What to measure next of a task: choices of all rules that take it.

Which rule writes the schedule is the first knob. Each rule's space is searched by itself, small
ones whole; the scores of all are of one model, so the best of all spaces are the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tcopt.schedules.spaces.space import Choice, Space
from tcopt.support.errors import InputError
from tcopt.tuner.features import SpaceFeatures
from tcopt.tuner.footprints import Floats
from tcopt.tuner.search.annealing import Annealing, anneal
from tcopt.tuner.search.distinct import signatures
from tcopt.tuner.search.enumeration import Enumeration
from tcopt.tuner.search.evolution import evolve
from tcopt.tuner.search.moves import Points, Score, Scores, draw_valid, is_valid, mutate

CHAINS = 1024
"""That anneal at once."""

FIRST_RANDOM = 0.4
"""How many of the first batch are drawn: a model learns little from choices that are alike."""

EARLY = 0.3
"""How many of the next ones are not the model's: it has seen little but what estimates prefer."""

EXPLORED = 0.15
"""How many of later ones are not the model's: drawn, or next to the best measured."""

OTHERS = 4
"""Of so many that estimates find best one is of a rule that is not the default's."""

ALIKE = 4
"""At most a fourth of a batch are alike in their leading knobs: one tells of the others."""

_SPARE = 16
"""How many times the batch a search gives back: some were measured before."""

MOST_KEPT = 1 << 15
"""Choices of a space whose features are kept: 12 MB."""

_TRIES = 16
"""Draws for a choice that was not measured, before there is likely none."""

_JITTER = 1e-6
"""Estimates that differ by less are as good as equal."""

ScoreOf = Callable[["Arm", Points], Scores]
"""Scores of choices of an arm, the higher the better."""


@dataclass(frozen=True)
class Proposal:
    """A choice of a rule, worth measuring.

    Attributes:
        origin: why: default, estimate, winner, random, neighbour or model.
        score: of the model that ranked it; 0 of others.
        schedule: equal for choices of the rule that are the same schedule; 0 if that is not known.
    """

    rule: str
    choice: Mapping[str, int]
    origin: str
    score: float = 0.0
    schedule: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same choice of the same rule."""
        return (self.rule, *self.choice.values())


class Arm:
    """A rule that takes a task, with its space.

    Args:
        facts: what rules know of the target.
        points: the choices that may be made, where they are not all of the space.
    """

    def __init__(self, rule: str, space: Space, facts: object, points: Points | None = None):
        self.rule, self.space = rule, space
        self.features = SpaceFeatures(rule, space, facts)
        self._is_part = points is not None
        suits = self._is_part or Enumeration.suits(space)
        self.enumeration = Enumeration(space, points) if suits else None

    @cached_property
    def default(self) -> dict[str, int]:
        """What the rule chooses by itself, knobs in the space's order."""
        chosen = self.space.default()
        return {knob.name: chosen[knob.name] for knob in self.space.knobs}

    def proposals(
        self, points: Points, origin: str, scores: Scores | None = None
    ) -> list[Proposal]:
        """The choices at rows of positions."""
        scores = np.zeros(len(points)) if scores is None else scores
        rows = zip(points, scores, signatures(self.space, points), strict=True)
        return [
            Proposal(self.rule, self.space.choice(p), origin, float(score), int(schedule))
            for p, score, schedule in rows
        ]

    def features_of(self, points: Points) -> Floats:
        """Features of choices; those of all of a small space are kept."""
        if self.enumeration is None or points is not self.enumeration.points:
            return self.features(points)
        if len(points) > MOST_KEPT:
            return self.features(points)
        return self._all_features

    @cached_property
    def _all_features(self) -> Floats:
        assert self.enumeration is not None
        return self.features(self.enumeration.points)

    @property
    def is_open(self) -> bool:
        """Whether there is more than one choice."""
        return self.space.size > 1

    def draw(self, count: int, rng: np.random.Generator) -> Points:
        """Valid choices at random, some maybe more than once."""
        if self.enumeration is not None:
            return self.enumeration.draw(count, rng)
        return draw_valid(self.space, count, rng)

    def around(self, choice: Choice, rng: np.random.Generator) -> Points:
        """Some valid choices next to one, which differ from it in one knob."""
        point = self.space.point(choice)
        if self._is_part and self.enumeration is not None:
            return self.enumeration.around(point, rng)
        moved = mutate(self.space, np.repeat(point[None], _TRIES, axis=0), rng)
        return moved[is_valid(self.space, moved)]

    def schedule_of(self, choice: Choice) -> int:
        """Equal for choices that are the same schedule."""
        ordered = {knob.name: choice[knob.name] for knob in self.space.knobs}
        return int(signatures(self.space, self.space.point(ordered)[None])[0])

    def by_estimate(self, points: Points) -> Scores:
        """Scores by what the rule itself says."""
        estimate = np.asarray(self.space.estimate(self.space.at(points)), np.float64)
        return -np.broadcast_to(estimate, len(points))

    def search(
        self, score: Score, good: Points, count: int, chains: int, rng: np.random.Generator
    ) -> tuple[Points, Scores]:
        """The choices of the highest scores that can be found, the best first.

        Args:
            good: choices that were measured and good: chains begin there as well.
        """
        if count < 1:  # All that may be tried are drawn at random.
            return self.space.draw(0, rng), np.zeros(0)
        if self.enumeration is not None:
            return self.enumeration.best(score, count)
        starts = draw_valid(self.space, chains, rng)
        if len(good):
            starts[: len(starts) // 4] = np.resize(good, (len(starts) // 4, good.shape[1]))
        found, _ = anneal(self.space, score, starts, count, rng, Annealing())
        parents = np.concatenate([found, good]) if len(good) else found
        return evolve(self.space, score, parents, count, rng)


class Proposer:
    """Proposes choices of a task, none twice.

    Args:
        arms: the rules that take it, that which schedules it by default first.
        seed: equal seeds and equal answers give equal proposals.
    """

    def __init__(self, arms: Sequence[Arm], seed: int = 0):
        if not arms:
            raise InputError("a task needs a rule that takes it")
        self.arms = list(arms)
        self._by_rule = {arm.rule: arm for arm in arms}
        self._rng = np.random.default_rng(seed)
        self._seen: set[tuple[object, ...]] = set()

    @property
    def size(self) -> int:
        """How many choices there are, valid or not."""
        return sum(arm.space.size for arm in self.arms)

    def arm(self, rule: str) -> Arm | None:
        """A rule's arm, if it takes the task."""
        return self._by_rule.get(rule)

    def default(self) -> Proposal:
        """What is chosen where nobody measures."""
        return Proposal(self.arms[0].rule, self.arms[0].default, "default")

    def saw(self, rule: str, choice: Choice) -> None:
        """Note what was measured before."""
        if (arm := self.arm(rule)) is not None:
            self._seen.add((rule, arm.schedule_of(choice)))

    def forget(self, proposal: Proposal) -> None:
        """Let a choice be proposed again."""
        self._seen.discard(self._key(proposal))

    def _key(self, proposal: Proposal) -> tuple[object, ...]:
        arm = self._by_rule[proposal.rule]
        return proposal.rule, proposal.schedule or arm.schedule_of(proposal.choice)

    def first(self, count: int, winners: Iterable[tuple[str, Choice]] = ()) -> list[Proposal]:
        """What to measure where nothing is known: the default, what is best by the rules' own
        estimates, what won on tasks like this one, and some at random.

        Half of what estimates say are the default rule's; they cannot be compared with each other.
        """
        found = self.start(count, winners)
        drawn = round(FIRST_RANDOM * count)
        room = max(count - len(found) - drawn, 0)
        found += self.best_by_estimate(room)
        return found + self.random(count - len(found))

    def known(self, choices: Iterable[tuple[str, Choice]], most: int) -> list[Proposal]:
        """What is a valid choice here of what was good elsewhere."""
        found: list[Proposal] = []
        for rule, choice in choices:
            if (arm := self.arm(rule)) is None:
                continue
            try:
                point = arm.space.point(choice)
            except InputError:
                continue
            if is_valid(arm.space, point[None])[0]:
                found += arm.proposals(point[None], "winner")
        return self._new(found, most)

    def single(self) -> list[Proposal]:
        """What the rules choose that leave nothing open."""
        return self._new(Proposal(a.rule, a.default, "single") for a in self.arms if not a.is_open)

    def start(self, count: int, winners: Iterable[tuple[str, Choice]] = ()) -> list[Proposal]:
        """The default, and what won on tasks like this one."""
        found = self._new([self.default()], count)
        return found + self.known(winners, count - len(found))

    def best_by_estimate(self, count: int) -> list[Proposal]:
        """What the rules' own estimates find best, the other rules' in turn every fourth time, and
        not too many alike while there are others."""
        queues = [self._queue_by_estimate(arm, count) for arm in self.arms if arm.is_open]
        found: list[Proposal] = []
        turn = 0
        while len(found) < count and any(queues):
            others = [q for q in queues[1:] if q]
            wants_first = turn % OTHERS or not others
            queue = queues[0] if wants_first and queues[0] else others[turn // OTHERS % len(others)]
            found += self._new([queue.pop(0)])
            turn += 1
        return found

    def best_by_score(
        self,
        count: int,
        score: ScoreOf,
        good: Sequence[tuple[str, Choice]] = (),
        share: float = EXPLORED,
        worth: Mapping[str, float] | None = None,
    ) -> list[Proposal]:
        """A batch by a model, with some that are not.

        Args:
            score: the model's.
            good: what was measured and good, the best first.
            share: of the batch that is not the model's.
            worth: how often rules are drawn from, as parts of how often they would be.
        """
        explored = round(share * count)
        scored: list[Proposal] = []
        shares = self._shares(good)
        for arm, chains in zip(self.arms, shares, strict=True):
            known = self._points(arm, good)
            points, scores = arm.search(
                lambda p, arm=arm: score(arm, p), known, _SPARE * count, chains, self._rng
            )
            scored += arm.proposals(points, "model", scores)
        scored.sort(key=lambda proposal: -proposal.score)
        found = self._new(self._unlike(scored, max(count // ALIKE, 1)), count - explored)
        found += self.neighbours(good, (count - len(found)) // 2)
        found += self.random(min(explored, count - len(found)), worth)
        return found + self._new(scored, count - len(found))

    def _unlike(self, proposals: Iterable[Proposal], most: int) -> Iterator[Proposal]:
        """Proposals, but not too many that have the knobs in common that count most."""
        alike: Counter[tuple[object, ...]] = Counter()
        for proposal in proposals:
            if self._key(proposal) in self._seen:
                continue
            leading = self._by_rule[proposal.rule].space.leading
            kind = (proposal.rule, *(proposal.choice[name] for name in leading))
            alike[kind] += 1
            if alike[kind] <= most:
                yield proposal

    def random(self, count: int, worth: Mapping[str, float] | None = None) -> list[Proposal]:
        """Choices drawn from all rules, as often as they have choices, but no rule never.

        Args:
            worth: by rule, by what part less often.
        """
        arms = [arm for arm in self.arms if arm.is_open]
        if not arms:
            return []
        sizes = np.log2(np.asarray([float(arm.space.size) for arm in arms]))
        sizes *= [1.0 if worth is None else worth.get(arm.rule, 1.0) for arm in arms]
        found: list[Proposal] = []
        for _ in range(_TRIES):
            missing = count - len(found)
            if missing <= 0:
                break
            picked = self._rng.choice(len(arms), missing, p=sizes / sizes.sum())
            for number, arm in enumerate(arms):
                points = arm.draw(int(np.sum(picked == number)), self._rng)
                found += self._new(arm.proposals(points, "random"))
        return found

    def neighbours(self, good: Sequence[tuple[str, Choice]], count: int) -> list[Proposal]:
        """Choices that differ in one knob from the best that were measured."""
        found: list[Proposal] = []
        for rule, choice in list(good)[: max(count, 1)]:
            arm = self.arm(rule)
            if arm is None or count <= 0:
                continue
            around = arm.around(choice, self._rng)[:_TRIES]
            proposals = arm.proposals(around, "neighbour")
            found += self._new(proposals, min(1, count - len(found)))
        return found

    def _points(self, arm: Arm, good: Sequence[tuple[str, Choice]]) -> Points:
        rows = [arm.space.point(choice) for rule, choice in good if rule == arm.rule]
        return np.stack(rows) if rows else arm.space.draw(0, self._rng)

    def _queue_by_estimate(self, arm: Arm, count: int) -> list[Proposal]:
        """The best of a rule by its estimate; of equal ones any, as many knobs are not weighed."""

        def score(points: Points) -> Scores:
            return arm.by_estimate(points) * (1 + _JITTER * self._rng.random(len(points)))

        none = arm.space.draw(0, self._rng)
        most = _SPARE * count + len(self._seen)
        points, _ = arm.search(score, none, most, CHAINS // 4, self._rng)
        found = arm.proposals(points, "estimate")
        unlike = list(self._unlike(found, max(count // ALIKE, 1)))
        rest = {p.schedule for p in unlike}
        alike = (p for p in found if p.schedule not in rest and self._key(p) not in self._seen)
        return [*unlike, *alike]

    def _shares(self, good: Sequence[tuple[str, Choice]]) -> list[int]:
        """Chains for each arm: half evenly, half by how many of the best are a rule's."""
        wins = np.asarray([sum(rule == arm.rule for rule, _ in good) for arm in self.arms])
        even = CHAINS // (2 * len(self.arms))
        won = CHAINS // 2 * wins / max(wins.sum(), 1)
        return [max(even + int(each), 16) for each in won]

    def _new(self, proposals: Iterable[Proposal], most: int | None = None) -> list[Proposal]:
        """Those that were not proposed before, which are noted."""
        found: list[Proposal] = []
        for proposal in proposals:
            if most is not None and len(found) >= most:
                break
            if self._key(proposal) not in self._seen:
                self._seen.add(self._key(proposal))
                found.append(proposal)
        return found
