"""Which tasks send tokens and which wait for them, so that every dependence of a stream holds.

Units execute their tasks in order, so one token from a task orders all tasks before it in its unit
in front of all behind the one that waits, in its own. For each pair of units tokens are therefore a
staircase: each comes from a later task, and is waited for by a later task, than the one before.
Every token goes forward in the stream, hence units cannot wait for each other in a circle.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tcopt.dialects.accelerator.dependences import Dependence, dependences_of
from tcopt.dialects.accelerator.tasks import Machine, Queue, Task
from tcopt.support.errors import UnsupportedError
from tcopt.support.remarks import remark

Pair = tuple[str, str]
"""A unit that sends tokens, and the one that waits for them."""


@dataclass(frozen=True, order=True)
class Token:
    """A token: the number of the task that sends it, and of the one that waits for it."""

    sender: int
    receiver: int


@dataclass
class TokenPlan:
    """The tokens of a stream.

    Attributes:
        tokens: by pair of units, in order.
        dependences: what they are for.
        relays: dependences of units without a queue between them that no task lies between which
            could pass a token on; one is needed in front of the second task, of the unit named.
    """

    name: str
    tokens: dict[Pair, list[Token]] = field(default_factory=dict[Pair, list[Token]])
    dependences: list[Dependence] = field(default_factory=list[Dependence])
    relays: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def count(self) -> int:
        """How many tokens there are."""
        return sum(map(len, self.tokens.values()))

    def pops(self) -> dict[int, list[str]]:
        """For each task that waits, the units whose tokens it waits for."""
        found: dict[int, list[str]] = defaultdict(list)
        for (sender, _), tokens in self.tokens.items():
            for token in tokens:
                found[token.receiver].append(sender)
        return found

    def pushes(self) -> dict[int, list[str]]:
        """For each task that sends tokens, the units that it sends them to."""
        found: dict[int, list[str]] = defaultdict(list)
        for (_, receiver), tokens in self.tokens.items():
            for token in tokens:
                found[token.sender].append(receiver)
        return found

    def remark(self, by: str, program: Operation) -> None:
        """Report the tokens and the dependences that they satisfy, in a remark of a pass."""
        remark(by, program, f"{self.count} tokens for {len(self.dependences)} dependences")
        reasons = {(each.first, each.second): each for each in self.dependences}
        for (sender, receiver), tokens in self.tokens.items():
            for token in tokens:
                reason = reasons.get((token.sender, token.receiver))
                text = f"{token.receiver} after {token.sender}"
                remark(by, program, f"{sender}->{receiver}: {text if reason is None else reason}")


def plan_tokens(name: str, machine: Machine, tasks: Sequence[Task]) -> TokenPlan:
    """The tokens that a stream needs, none of which follows from others.

    Raises:
        UnsupportedError: no way of tokens leads from a unit to one that must wait for it.
    """
    dependences = dependences_of(machine, tasks)
    return _Planner(name, machine, tasks, dependences).run()


def needed(tasks: Sequence[Task], dependences: Iterable[Dependence]) -> Iterator[Dependence]:
    """Dependences without those that follow from others: a task also comes after all that those
    before it came after."""
    by_task: dict[int, list[Dependence]] = defaultdict(list)
    for each in dependences:
        by_task[each.second].append(each)
    known: list[dict[str, int]] = []
    newest: dict[str, dict[str, int]] = {}
    for task in tasks:
        clock = dict(newest.get(task.unit, {}))
        for each in sorted(by_task[task.number], key=lambda each: -each.first):
            if clock.get(tasks[each.first].unit, -1) >= each.first:
                continue
            for unit, number in known[each.first].items():
                clock[unit] = max(clock.get(unit, -1), number)
            yield each
        clock[task.unit] = task.number
        known.append(clock)
        newest[task.unit] = clock


class Staircase:
    """Tokens of one pair of units, each from later and to later than the one before."""

    def __init__(self, needs: Iterable[Token] = ()):
        self.tokens: list[Token] = []
        latest = -1
        for token in sorted(needs, key=lambda each: (each.receiver, -each.sender)):
            if token.sender > latest:
                self.tokens.append(token)
                latest = token.sender
        self._senders = [token.sender for token in self.tokens]
        self._receivers = [token.receiver for token in self.tokens]

    def earliest_after(self, sender: int) -> int | None:
        """The first task that waits until a task is done, in other words for one as late."""
        place = bisect_left(self._senders, sender)
        return self._receivers[place] if place < len(self.tokens) else None

    def latest_before(self, receiver: int) -> int | None:
        """The last task that is done before a task starts."""
        place = bisect_right(self._receivers, receiver)
        return self._senders[place - 1] if place else None

    def orders(self, first: int, second: int) -> bool:
        """Whether a task comes before another because of these tokens alone."""
        last = self.latest_before(second)
        return last is not None and last >= first


class _Planner:
    def __init__(
        self, name: str, machine: Machine, tasks: Sequence[Task], dependences: list[Dependence]
    ):
        self.machine = machine
        self.tasks = tasks
        self.queues: Mapping[Pair, Queue] = {
            (queue.producer, queue.consumer): queue for queue in machine.queues.values()
        }
        self.plan = TokenPlan(name, dependences=dependences)
        self.needs: dict[Pair, set[Token]] = {pair: set() for pair in self.queues}
        self.stairs: dict[Pair, Staircase] = {}
        self.passed: list[tuple[str, Dependence]] = []
        """Dependences of units without a queue between them, and the unit that passes them on."""
        self.by_unit: dict[str, list[int]] = {unit: [] for unit in machine.units}
        for task in tasks:
            self.by_unit[task.unit].append(task.number)

    def run(self) -> TokenPlan:
        for each in needed(self.tasks, self.plan.dependences):
            pair = (self.tasks[each.first].unit, self.tasks[each.second].unit)
            if pair in self.queues:
                self.needs[pair].add(Token(each.first, each.second))
            else:
                self.passed.append((self.middle(*pair), each))
        direct = {pair: frozenset(needs) for pair, needs in self.needs.items()}
        self.stairs = {pair: Staircase(needs) for pair, needs in self.needs.items()}
        for middle, each in self.passed:
            self.pass_on(middle, each)
        self.drop_needless(direct)
        fit_queues(self.needs, self.queues, self.stairs)
        self.plan.tokens = {pair: stairs.tokens for pair, stairs in self.stairs.items()}
        return self.plan

    def middle(self, first: str, second: str) -> str:
        """The unit between two that have no queue between them."""
        for unit in self.machine.units:
            if (first, unit) in self.queues and (unit, second) in self.queues:
                return unit
        raise UnsupportedError(
            f"the {second} unit cannot wait for the {first} unit: no tokens lead from one to the "
            "other",
            where=f"@{self.plan.name}",
        )

    def pass_on(self, middle: str, each: Dependence) -> None:
        """Order two tasks through one of the unit between theirs, with as few tokens as may be."""
        first, second = each.first, each.second
        to, back = self.ends(middle, each)
        after = self.stairs[to].earliest_after(first)
        before = self.stairs[back].latest_before(second)
        if after is not None and before is not None and after <= before:
            return
        if after is not None and after < second:
            self.need(back, Token(after, second))
        elif before is not None and before > first:
            self.need(to, Token(first, before))
        elif (between := self.last_between(middle, first, second)) is not None:
            self.need(to, Token(first, between))
            self.need(back, Token(between, second))
        else:
            self.plan.relays[second] = middle

    def ends(self, middle: str, each: Dependence) -> tuple[Pair, Pair]:
        """The pairs of units on the way from one task to another over a unit between."""
        first, second = self.tasks[each.first].unit, self.tasks[each.second].unit
        return (first, middle), (middle, second)

    def last_between(self, unit: str, first: int, second: int) -> int | None:
        numbers = self.by_unit[unit]
        place = bisect_left(numbers, second)
        return numbers[place - 1] if place and numbers[place - 1] > first else None

    def need(self, pair: Pair, token: Token) -> None:
        self.needs[pair].add(token)
        self.stairs[pair] = Staircase(self.needs[pair])

    def drop_needless(self, direct: Mapping[Pair, frozenset[Token]]) -> None:
        """Take away tokens for tasks between that later ones have made needless."""
        for pair, needs in self.needs.items():
            for token in sorted(needs - direct[pair]):
                before = self.stairs[pair]
                self.stairs[pair] = Staircase(needs - {token})
                if self.holds(pair, direct[pair]):
                    needs.remove(token)
                else:
                    self.stairs[pair] = before

    def holds(self, pair: Pair, direct: Iterable[Token]) -> bool:
        """Whether all is ordered that needs the tokens of a pair."""
        if not all(self.stairs[pair].orders(each.sender, each.receiver) for each in direct):
            return False
        return all(
            self.is_passed_on(middle, each)
            for middle, each in self.passed
            if pair in self.ends(middle, each) and each.second not in self.plan.relays
        )

    def is_passed_on(self, middle: str, each: Dependence) -> bool:
        to, back = self.ends(middle, each)
        after = self.stairs[to].earliest_after(each.first)
        before = self.stairs[back].latest_before(each.second)
        return after is not None and before is not None and after <= before


def fit_queues(
    needs: dict[Pair, set[Token]],
    queues: Mapping[Pair, Queue],
    stairs: dict[Pair, Staircase],
) -> None:
    """Change tokens until no queue may have to hold more than it can.

    The task that sends one too many waits, by a token the other way, until an earlier one was
    taken; where that comes later in the stream, a task waits for a later token in place of two.
    What neither helps is left to the proof.
    """
    limit = 2 * sum(len(each.tokens) for each in stairs.values())
    for _ in range(limit):
        for pair, token in _changes(queues, stairs):
            needs[pair].add(token)
            stairs[pair] = Staircase(needs[pair])
            break
        else:
            return


def _changes(
    queues: Mapping[Pair, Queue], stairs: Mapping[Pair, Staircase]
) -> Iterator[tuple[Pair, Token]]:
    """What would help where a queue overflows."""
    for pair, queue in queues.items():
        tokens = stairs[pair].tokens
        if len(tokens) <= queue.depth:
            continue
        reverse = (pair[1], pair[0])
        for place in range(queue.depth, len(tokens)):
            sent, taken = tokens[place], tokens[place - queue.depth]
            if reverse in stairs and stairs[reverse].orders(taken.receiver, sent.sender):
                continue
            if reverse in stairs and taken.receiver < sent.sender:
                yield reverse, Token(taken.receiver, sent.sender)
            elif sent.sender < (last := tokens[place - 1]).receiver:
                yield pair, Token(sent.sender, last.receiver)
