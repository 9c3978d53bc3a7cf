"""Candidates measured: compiled on all cores, then checked and timed alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from tcopt.support.cores import default_threads
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.builders import Builder, Built, LocalBuilders
from tcopt.tuner.measure.least_times import amounts_of, measured_again, on_this_machine
from tcopt.tuner.measure.outcomes import CandidateFailed, Outcome
from tcopt.tuner.measure.reference import Reference
from tcopt.tuner.measure.runner import Limits, Runner
from tcopt.tuner.measure.turns import Turns, TurnSettings
from tcopt.tuner.measure.workload import Code, Workload
from tcopt.tuner.tasks import Task

_RTOL = 1e-4
_ATOL = 1e-5
_ROUNDINGS = 32
"""Errors of so many roundings of the least precise type are accepted."""

Progress = Callable[[Candidate, Outcome], None]


class Measurer(Protocol):
    """What finds out how good candidates are, here or elsewhere."""

    def measure(
        self,
        candidates: Sequence[Candidate],
        *,
        best: Candidate | None = None,
        done: Progress | None = None,
        timed: Mapping[str, Outcome] | None = None,
    ) -> list[Outcome]:
        """What becomes of each candidate; nothing that one does is an exception.

        The default of their task is measured with them.

        Args:
            candidates: of one task.
            best: the best one so far, which is measured again beside them.
            done: called with each outcome.
            timed: outcomes of the task's earlier code by its digest: equal code is not run again.
        """
        ...

    def close(self) -> None:
        """End all processes."""
        ...


@dataclass(frozen=True)
class MeasureSettings:
    """How candidates are measured.

    Attributes:
        threads: that kernels may use, by default as many as at run time.
        builders: processes that compile, by default one for each core.
        least_compile_s, compile_factor: a candidate may take so long to compile, or so many
            times as long as the default.
        memory: bytes that the process which runs candidates may take, by default most of them.
        limits, turns: of runs, and of timing.
    """

    threads: int | None = None
    builders: int | None = None
    least_compile_s: float = 10.0
    compile_factor: float = 10.0
    first_compile_s: float = 300.0
    memory: int | None = None
    limits: Limits = field(default_factory=Limits)
    turns: TurnSettings = field(default_factory=TurnSettings)


def twins_of(
    built: Sequence[Code | CandidateFailed], timed: Mapping[str, Outcome]
) -> dict[int, Outcome]:
    """What is known of code that was run before, by its place."""
    found: dict[int, Outcome] = {}
    for number, code in enumerate(built):
        if isinstance(code, Code) and code.digest in timed:
            found[number] = replace(timed[code.digest], code=code)
    return found


@dataclass(frozen=True)
class Known:
    """What is kept of a task: the right results, and its default."""

    workload: Workload
    default: Code


def workload_of(task: Task, reference: Reference) -> Workload:
    """What candidates of a task are checked against, on any machine."""
    return Workload(
        key=task.key,
        arguments=task.arguments,
        expected=reference.expected,
        rtol=max(_RTOL, _ROUNDINGS * reference.precision),
        atol=_ATOL,
        rounds=reference.rounds,
    )


class BatchMeasurer(ABC):
    """What measurers begin alike: candidates compiled, and those found that need no run.

    Args:
        builders: that compile.
    """

    def __init__(self, settings: MeasureSettings, builders: Builder):
        self.settings, self._builders = settings, builders
        self._known: dict[tuple[str, str], Known] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        self._builders.stop()

    def measure(
        self,
        candidates: Sequence[Candidate],
        *,
        best: Candidate | None = None,
        done: Progress | None = None,
        timed: Mapping[str, Outcome] | None = None,
    ) -> list[Outcome]:
        """What becomes of each candidate."""
        if not candidates:
            return []
        task = candidates[0].task
        try:
            known = self._get_known(task)
        except CandidateFailed as error:
            return [Outcome(error.status, f"the default: {error.message}") for _ in candidates]
        own = len(candidates)
        built = self._build([*candidates, *([best] if best is not None else [])], known.default)
        found: dict[int, Outcome] = {}

        def tell(number: int, outcome: Outcome) -> None:
            found[number] = outcome
            if done is not None:
                done(candidates[number], outcome)

        twins = twins_of(built[:own], timed or {})
        codes: dict[int, Code] = {}
        for number, made in enumerate(built[:own]):
            if isinstance(made, CandidateFailed):
                tell(number, Outcome(made.status, made.message))
            elif number in twins:
                tell(number, twins[number])
            else:
                codes[number] = made
        others = [made for made in built[own:] if isinstance(made, Code)]
        if codes:
            self._run(task, known, codes, others, tell)
        return [found[number] for number in range(own)]

    @abstractmethod
    def _run(
        self,
        task: Task,
        known: Known,
        codes: Mapping[int, Code],
        others: Sequence[Code],
        tell: Callable[[int, Outcome], None],
    ) -> None:
        """Check and time code, and tell what became of each.

        Args:
            others: what takes turns with it, beside the default.
        """

    def _workload(self, task: Task) -> Workload:
        """What the candidates of a task are checked against."""
        return workload_of(task, self._builders.reference(task))

    def _build(self, candidates: Sequence[Candidate], default: Code) -> list[Built]:
        settings = self.settings
        limit = max(settings.least_compile_s, settings.compile_factor * default.seconds)
        made = iter(self._builders.build([c for c in candidates if not c.is_default], limit))
        return [default if c.is_default else next(made) for c in candidates]

    def _get_known(self, task: Task) -> Known:
        place = task.key, task.target_key
        if place not in self._known:
            (default,) = self._builders.build([Candidate(task)], self.settings.first_compile_s)
            if isinstance(default, CandidateFailed):
                raise default
            self._known[place] = Known(self._workload(task), default)
        return self._known[place]


class LocalMeasurer(BatchMeasurer):
    """Measures on this machine: builder processes, and one that runs what they made.

    Args:
        builders: by default processes on this machine, too.
    """

    def __init__(self, settings: MeasureSettings | None = None, builders: Builder | None = None):
        settings = settings or MeasureSettings()
        super().__init__(settings, builders or LocalBuilders(settings.builders))
        self._runners: dict[str, Runner] = {}

    def close(self) -> None:
        """End all processes."""
        super().close()
        for runner in self._runners.values():
            runner.stop()

    def _run(
        self,
        task: Task,
        known: Known,
        codes: Mapping[int, Code],
        others: Sequence[Code],
        tell: Callable[[int, Outcome], None],
    ) -> None:
        runner = self._runner(task)
        runner.use(known.workload)
        beside = [known.default, *others]
        first = max(codes) + 1
        turns = Turns(
            runner,
            known.workload,
            {**dict(enumerate(beside, first)), **codes},
            first,
            self.settings.turns,
            lambda: measured_again(amounts_of(task), task.kind, self._threads),
        )
        outcomes = turns.run()
        for number in codes:
            tell(number, outcomes[number])

    def _workload(self, task: Task) -> Workload:
        workload = super()._workload(task)
        return on_this_machine(workload, amounts_of(task), task.kind, self._threads)

    @property
    def _threads(self) -> int:
        return self.settings.threads or default_threads()

    def _runner(self, task: Task) -> Runner:
        if task.kind not in self._runners:
            settings = self.settings
            self._runners[task.kind] = Runner(
                task.kind, self._threads, settings.limits, settings.memory
            )
        return self._runners[task.kind]
