"""Search of choices about operators of the graph, by comparing whole models.

The effect of a choice on one kernel is not enough: blocked channels and fused operators also change
the neighbours' work. So the models with and without the choice are timed interleaved, one choice
after the other, for the operators that take most of the time. A choice that is significantly faster
is kept while the next ones are tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tcopt.support.errors import TcoptError
from tcopt.tuner.lock import TunedOperator
from tcopt.tuner.operators import Operator
from tcopt.tuner.tasks import Task
from tcopt.tuner.whole_models.acceptance import Verdict

LEAST_SHARE = 0.02
"""Minimum share of the model's time for an operator's choices to be tried."""

SHARE = 0.2
"""Maximum share of the tuning time for choices about the graph."""

Kernels = frozenset[str]
"""Keys of the kernels of a model: equal for equal code."""


@dataclass(frozen=True)
class GraphTrial:
    """A choice that was tried, and the comparison of its model."""

    operator: Operator
    choice: Mapping[str, int]
    verdict: Verdict


class GraphSearch:
    """Search choices for operators.

    Args:
        kernels: returns the kernels of the model with some choices.
        compare: compares the model with the second choices to the model with the first.
        progress: called with progress messages.
        clock: returns seconds.
    """

    def __init__(
        self,
        kernels: Callable[[Sequence[TunedOperator]], Kernels],
        compare: Callable[[Sequence[TunedOperator], Sequence[TunedOperator]], Verdict],
        progress: Callable[[str], object],
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._kernels, self._compare, self._report, self._clock = kernels, compare, progress, clock
        self.trials: list[GraphTrial] = []
        self.interrupted = False
        self._kept: dict[str, TunedOperator] = {}

    def run(self, operators: Sequence[Operator], seconds: float) -> list[TunedOperator]:
        """Return the choices that make the model faster; operators are tried in the given order.

        Ctrl-C ends the search; the choices found so far are kept.
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
        """Keep a choice if the model is faster than with the earlier choices, replacing one of the
        same operator.
        """
        before = list(self._kept.values())
        tried = TunedOperator(operator.key, operator.target, choice, operator.nodes)
        after = [each for each in before if each.key != operator.key] + [tried]
        name = f"{', '.join(operator.nodes[:3])}: {_words(choice)}"
        try:
            kernels = self._kernels(after)
            if kernels in known:
                return  # The choice changes nothing, or equals a variant that was tried.
            known.add(kernels)
            verdict = self._compare(before, after)
        except TcoptError as error:
            self._report(f"{name}: {error.message}")
            return
        self.trials.append(GraphTrial(operator, choice, verdict))
        if verdict.accepted:
            self._kept[operator.key] = replace(tried, gain=verdict.speed)
            self._report(f"{name}: the model is {verdict.speed:.3f}x as fast")


def heavy_operators(operators: Sequence[Operator], tasks: Sequence[Task]) -> list[Operator]:
    """Return the operators whose kernels take much of a run, the longest first."""
    total = sum(task.weight for task in tasks) or 1.0
    weights = {each.key: _weight(each, tasks) / total for each in operators}
    heavy = [each for each in operators if weights[each.key] >= LEAST_SHARE]
    return sorted(heavy, key=lambda each: -weights[each.key])


def _weight(operator: Operator, tasks: Sequence[Task]) -> float:
    return sum(task.weight for task in tasks if not set(task.nodes).isdisjoint(operator.nodes))


def _words(choice: Mapping[str, int | str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in choice.items())
