"""Choices about operators of the graph: a few variants of the model that compete end to end.

What a choice does to a kernel alone says little: blocks of channels and fused operators change what
their neighbours have to do. So the model with the choice and the model without it take turns, for
the operators that take most of the time, one choice after the other; each that is faster beyond
noise is kept while the next ones are tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tcopt.support.errors import TcoptError
from tcopt.tools.tuning.acceptance import Verdict
from tcopt.tuner.lock import TunedOperator
from tcopt.tuner.operators import Operator
from tcopt.tuner.tasks import Task

LEAST_SHARE = 0.02
"""Of the model's time that an operator's kernel takes, for choices about it to be tried."""

SHARE = 0.2
"""Of the time that is given to choices about the graph at most."""

Kernels = frozenset[str]
"""Keys of the kernels of a model: equal for equal code."""


@dataclass(frozen=True)
class GraphTrial:
    """A choice that was tried."""

    operator: Operator
    choice: Mapping[str, int]
    verdict: Verdict


class GraphSearch:
    """Searches choices for operators.

    Args:
        kernels: the kernels of the model with some choices.
        compare: how the model with the second choices compares with that of the first.
        told: called with lines for people.
        clock: seconds.
    """

    def __init__(
        self,
        kernels: Callable[[Sequence[TunedOperator]], Kernels],
        compare: Callable[[Sequence[TunedOperator], Sequence[TunedOperator]], Verdict],
        told: Callable[[str], object],
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._kernels, self._compare, self._tell, self._clock = kernels, compare, told, clock
        self.trials: list[GraphTrial] = []
        self.interrupted = False
        self._kept: dict[str, TunedOperator] = {}

    def run(self, operators: Sequence[Operator], seconds: float) -> list[TunedOperator]:
        """The choices that make the model faster; operators that come first are tried first.

        Ctrl-C ends it, and what was found so far is kept.
        """
        end = self._clock() + seconds
        try:
            known = {self._kernels(())}
            for operator in operators:
                for choice in operator.choices:
                    if self._clock() >= end:
                        return list(self._kept.values())
                    self._try(operator, choice, known)
        except KeyboardInterrupt:
            self.interrupted = True
        return list(self._kept.values())

    def _try(self, operator: Operator, choice: Mapping[str, int], known: set[Kernels]) -> None:
        """Keep a choice if the model is faster than with those before, one of which it may take
        the place of."""
        before = list(self._kept.values())
        tried = TunedOperator(operator.key, operator.target, choice, operator.nodes)
        after = [each for each in before if each.key != operator.key] + [tried]
        name = f"{', '.join(operator.nodes[:3])}: {_words(choice)}"
        try:
            kernels = self._kernels(after)
            if kernels in known:
                return  # It changes nothing, or is what was tried.
            known.add(kernels)
            verdict = self._compare(before, after)
        except TcoptError as error:
            self._tell(f"{name}: {error.message}")
            return
        self.trials.append(GraphTrial(operator, choice, verdict))
        if verdict.accepted:
            self._kept[operator.key] = replace(tried, gain=verdict.speed)
            self._tell(f"{name}: the model is {verdict.speed:.3f}x as fast")


def heavy_operators(operators: Sequence[Operator], tasks: Sequence[Task]) -> list[Operator]:
    """The operators whose kernels take much of a run, those that take most first."""
    total = sum(task.weight for task in tasks) or 1.0
    weights = {each.key: _weight(each, tasks) / total for each in operators}
    heavy = [each for each in operators if weights[each.key] >= LEAST_SHARE]
    return sorted(heavy, key=lambda each: -weights[each.key])


def _weight(operator: Operator, tasks: Sequence[Task]) -> float:
    return sum(task.weight for task in tasks if not set(task.nodes).isdisjoint(operator.nodes))


def _words(choice: Mapping[str, int | str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in choice.items())
