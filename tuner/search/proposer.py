"""Proposals of what to measure next for a task: choices of all applicable rules.

The rule is the first decision. Each rule's space is searched separately, small ones exhaustively.
One model scores all of them, so a batch has the best choices of all spaces.
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
"""Number of annealing chains."""

FIRST_RANDOM = 0.4
"""Share of random choices in the first batch: similar choices teach the model little."""

EARLY = 0.3
"""Share of early batches that the model does not choose, as it has mostly seen good estimates."""

EXPLORED = 0.15
"""Share of later batches that the model does not choose: random, or neighbours of good choices."""

OTHERS = 4
"""Reciprocal share of proposals by estimate that are from rules other than the default's."""

ALIKE = 4
"""At most a fourth of a batch has equal leading knobs, as such choices perform similarly."""

_SPARE = 16
"""Number of results of a search relative to the batch, as some were measured before."""

MOST_KEPT = 1 << 15
"""Maximum number of choices of a space whose features are cached: 12 MB."""

_TRIES = 16
"""Number of draws for an unmeasured choice before giving up."""

_JITTER = 1e-6
"""Relative difference below which estimates count as equal."""

ScoreOf = Callable[["Arm", Points], Scores]
"""Returns scores of choices in an `Arm`, higher is better."""


@dataclass(frozen=True)
class Proposal:
    """A choice of a rule to be measured.

    Attributes:
        origin: why: default, estimate, winner, random, neighbour or model.
        score: predicted by the model; 0 for other origins.
        schedule: signature, equal for choices with the same schedule; 0 if unknown.
    """

    rule: str
    choice: Mapping[str, int]
    origin: str
    score: float = 0.0
    schedule: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for the same choice of the same rule."""
        return (self.rule, *self.choice.values())


class Arm:
    """A rule that applies to a task, with its space.

    Args:
        facts: the target's facts, as rules take them.
        points: the available choices, if they are a subset of the space.
    """

    def __init__(self, rule: str, space: Space, facts: object, points: Points | None = None):
        self.rule, self.space = rule, space
        self.features = SpaceFeatures(rule, space, facts)
        self._is_part = points is not None
        suits = self._is_part or Enumeration.suits(space)
        self.enumeration = Enumeration(space, points) if suits else None

    @cached_property
    def default(self) -> dict[str, int]:
        """The rule's default choice, with knobs in the space's order."""
        chosen = self.space.default()
        return {knob.name: chosen[knob.name] for knob in self.space.knobs}

    def proposals(
        self, points: Points, origin: str, scores: Scores | None = None
    ) -> list[Proposal]:
        """Return proposals for rows of positions."""
        scores = np.zeros(len(points)) if scores is None else scores
        rows = zip(points, scores, signatures(self.space, points), strict=True)
        return [
            Proposal(self.rule, self.space.choice(p), origin, float(score), int(schedule))
            for p, score, schedule in rows
        ]

    def features_of(self, points: Points) -> Floats:
        """Return features of choices; those of a whole small space are cached."""
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
        """Return random valid choices, possibly repeated."""
        if self.enumeration is not None:
            return self.enumeration.draw(count, rng)
        return draw_valid(self.space, count, rng)

    def around(self, choice: Choice, rng: np.random.Generator) -> Points:
        """Return some valid neighbours of a choice, which differ in one knob."""
        point = self.space.point(choice)
        if self._is_part and self.enumeration is not None:
            return self.enumeration.around(point, rng)
        moved = mutate(self.space, np.repeat(point[None], _TRIES, axis=0), rng)
        return moved[is_valid(self.space, moved)]

    def schedule_of(self, choice: Choice) -> int:
        """Return a signature that is equal for choices with the same schedule."""
        ordered = {knob.name: choice[knob.name] for knob in self.space.knobs}
        return int(signatures(self.space, self.space.point(ordered)[None])[0])

    def by_estimate(self, points: Points) -> Scores:
        """Return scores by the rule's own estimate."""
        estimate = np.asarray(self.space.estimate(self.space.at(points)), np.float64)
        return -np.broadcast_to(estimate, len(points))

    def search(
        self, score: Score, good: Points, count: int, chains: int, rng: np.random.Generator
    ) -> tuple[Points, Scores]:
        """Search for the choices with the highest scores; return the best first.

        Args:
            good: good measured choices, from which some of the chains start.
        """
        if count < 1:  # No search is needed if the whole batch is drawn at random.
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
    """Proposes distinct choices of a task.

    Args:
        arms: the rules that apply to it, the default rule first.
        seed: equal seeds and equal answers give equal proposals.
    """

    def __init__(self, arms: Sequence[Arm], seed: int = 0):
        if not arms:
            raise InputError("no rule applies to the task")
        self.arms = list(arms)
        self._by_rule = {arm.rule: arm for arm in arms}
        self._rng = np.random.default_rng(seed)
        self._seen: set[tuple[object, ...]] = set()

    @property
    def size(self) -> int:
        """Number of choices, valid or not."""
        return sum(arm.space.size for arm in self.arms)

    def arm(self, rule: str) -> Arm | None:
        """Return the `Arm` of a rule, if the rule applies to the task."""
        return self._by_rule.get(rule)

    def default(self) -> Proposal:
        """Return the default choice of the default rule."""
        return Proposal(self.arms[0].rule, self.arms[0].default, "default")

    def saw(self, rule: str, choice: Choice) -> None:
        """Record a choice that was measured before."""
        if (arm := self.arm(rule)) is not None:
            self._seen.add((rule, arm.schedule_of(choice)))

    def forget(self, proposal: Proposal) -> None:
        """Allow a choice to be proposed again."""
        self._seen.discard(self._key(proposal))

    def _key(self, proposal: Proposal) -> tuple[object, ...]:
        arm = self._by_rule[proposal.rule]
        return proposal.rule, proposal.schedule or arm.schedule_of(proposal.choice)

    def first(self, count: int, winners: Iterable[tuple[str, Choice]] = ()) -> list[Proposal]:
        """Return a batch when nothing is known: the default, winners of similar tasks, the best by
        the rules' own estimates, and random choices.

        Estimates of different rules cannot be compared, so most are taken from the default rule.
        """
        found = self.start(count, winners)
        drawn = round(FIRST_RANDOM * count)
        room = max(count - len(found) - drawn, 0)
        found += self.best_by_estimate(room)
        return found + self.random(count - len(found))

    def known(self, choices: Iterable[tuple[str, Choice]], most: int) -> list[Proposal]:
        """Return those of the given choices that are valid here and not proposed yet."""
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
        """Return the choices of rules that leave nothing open."""
        return self._new(Proposal(a.rule, a.default, "single") for a in self.arms if not a.is_open)

    def start(self, count: int, winners: Iterable[tuple[str, Choice]] = ()) -> list[Proposal]:
        """Return the default, and the winners of similar tasks."""
        found = self._new([self.default()], count)
        return found + self.known(winners, count - len(found))

    def best_by_estimate(self, count: int) -> list[Proposal]:
        """Return the best choices by the rules' estimates; every fourth is from a rule other than
        the default's. Similar choices are limited while there are others.
        """
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
        """Return a batch chosen by a model, with some choices for exploration.

        Args:
            score: the model's.
            good: good measured choices, the best first.
            share: of the batch that the model does not choose.
            worth: weight of each rule in random draws, 1 by default.
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
        """Yield proposals, limiting those with equal values of the leading knobs."""
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
        """Draw choices of all rules, with probabilities that grow with the logarithm of a rule's
        choices.

        Args:
            worth: factor of the probability, by rule.
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
        """Return unmeasured choices that differ in one knob from the best measured ones."""
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
        """Return the best choices of a rule by its estimate; ties, which are common, are broken
        randomly.
        """

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
        """Return the number of chains for each rule: half evenly, half by its share of the best
        choices.
        """
        wins = np.asarray([sum(rule == arm.rule for rule, _ in good) for arm in self.arms])
        even = CHAINS // (2 * len(self.arms))
        won = CHAINS // 2 * wins / max(wins.sum(), 1)
        return [max(even + int(each), 16) for each in won]

    def _new(self, proposals: Iterable[Proposal], most: int | None = None) -> list[Proposal]:
        """Return the proposals that are new, and record them."""
        found: list[Proposal] = []
        for proposal in proposals:
            if most is not None and len(found) >= most:
                break
            if self._key(proposal) not in self._seen:
                self._seen.add(self._key(proposal))
                found.append(proposal)
        return found
