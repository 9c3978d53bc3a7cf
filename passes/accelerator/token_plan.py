"""Planning of the tokens that make every dependence of an instruction stream hold.

Units execute their tasks in order, so a token orders all tasks up to its sender before all tasks
from its receiver on. Tokens of a pair of units can therefore be monotone, like a staircase: each
has a later sender and a later receiver than the one before. All tokens point forward in the stream,
so units cannot wait for each other in a cycle.
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
"""The unit that sends tokens, and the unit that receives them."""


@dataclass(frozen=True, order=True)
class Token:
    """A token, as the indices of the tasks that send and receive it."""

    sender: int
    receiver: int


@dataclass
class TokenPlan:
    """The tokens of a stream.

    Attributes:
        tokens: tokens of each pair of units, in order.
        dependences: the dependences that they enforce.
        relays: tasks that depend on a unit without a queue to theirs, with no task in between to
            relay a token; a relay of the named unit is needed before each.
    """

    name: str
    tokens: dict[Pair, list[Token]] = field(default_factory=dict[Pair, list[Token]])
    dependences: list[Dependence] = field(default_factory=list[Dependence])
    relays: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def count(self) -> int:
        """Number of tokens."""
        return sum(map(len, self.tokens.values()))

    def pops(self) -> dict[int, list[str]]:
        """Return, for each waiting task, the units whose tokens it receives."""
        found: dict[int, list[str]] = defaultdict(list)
        for (sender, _), tokens in self.tokens.items():
            for token in tokens:
                found[token.receiver].append(sender)
        return found

    def pushes(self) -> dict[int, list[str]]:
        """Return, for each sending task, the units to which it sends tokens."""
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
    """Return the tokens that a stream needs, without redundant ones.

    Raises:
        UnsupportedError: no path of queues leads from a unit to one that must wait for it.
    """
    dependences = dependences_of(machine, tasks)
    return _Planner(name, machine, tasks, dependences).run()


def needed(tasks: Sequence[Task], dependences: Iterable[Dependence]) -> Iterator[Dependence]:
    """Yield the dependences that are not implied transitively by others."""
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
    """Monotone tokens of one pair of units: senders and receivers both increase."""

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
        """Return the first task that waits for a sender or a later one, or None."""
        place = bisect_left(self._senders, sender)
        return self._receivers[place] if place < len(self.tokens) else None

    def latest_before(self, receiver: int) -> int | None:
        """Return the last task that must be complete before a task starts, or None."""
        place = bisect_right(self._receivers, receiver)
        return self._senders[place - 1] if place else None

    def orders(self, first: int, second: int) -> bool:
        """Whether these tokens alone order a task before another."""
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
        """Dependences of units without a queue between them, and the unit that relays them."""
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
        """Return the unit between two that have no queue between them."""
        for unit in self.machine.units:
            if (first, unit) in self.queues and (unit, second) in self.queues:
                return unit
        raise UnsupportedError(
            f"the {second} unit cannot wait for the {first} unit: no tokens lead from one to the "
            "other",
            where=f"@{self.plan.name}",
        )

    def pass_on(self, middle: str, each: Dependence) -> None:
        """Order two tasks through the unit between theirs, with as few new tokens as possible."""
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
        """Return the two pairs of units on the path between two tasks through a middle unit."""
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
        """Remove relay tokens that later ones have made redundant."""
        for pair, needs in self.needs.items():
            for token in sorted(needs - direct[pair]):
                before = self.stairs[pair]
                self.stairs[pair] = Staircase(needs - {token})
                if self.holds(pair, direct[pair]):
                    needs.remove(token)
                else:
                    self.stairs[pair] = before

    def holds(self, pair: Pair, direct: Iterable[Token]) -> bool:
        """Whether all dependences that need the tokens of a pair are satisfied."""
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
    """Add tokens until no queue can exceed its capacity.

    A task that would overflow a queue waits, by a token in the opposite direction, until an earlier
    token was received. If that receiver is later in the stream, one token replaces two. Remaining
    overflows are reported by the verification.
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
    """Yield changes that may help if a queue overflows."""
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
