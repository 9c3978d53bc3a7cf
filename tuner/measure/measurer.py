"""Measurement of candidates: compiled on all cores, then checked and timed one at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from tcopt.support.processes.cores import default_threads
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.builders import Builder, Built, LocalBuilders
from tcopt.tuner.measure.least_times import amounts_of, measured_again, on_this_machine
from tcopt.tuner.measure.outcomes import CandidateFailed, Outcome
from tcopt.tuner.measure.reference import Reference
from tcopt.tuner.measure.runner import RunLimits, Runner
from tcopt.tuner.measure.turns import Turns, TurnSettings
from tcopt.tuner.measure.workload import Code, Workload
from tcopt.tuner.tasks import Task

_RTOL = 1e-4
_ATOL = 1e-5
_ROUNDINGS = 32
"""Accepted error, in roundings of the least precise type."""

Progress = Callable[[Candidate, Outcome], None]


class Measurer(Protocol):
    """Interface for measuring candidates, on this machine or elsewhere."""

    def measure(
        self,
        candidates: Sequence[Candidate],
        *,
        best: Candidate | None = None,
        done: Progress | None = None,
        timed: Mapping[str, Outcome] | None = None,
    ) -> list[Outcome]:
        """Return the outcome of each candidate; failures are outcomes, not exceptions.

        The default schedule of their task is measured with them.

        Args:
            candidates: of one task.
            best: the best one so far, which is measured again with them.
            done: called with each outcome.
            timed: outcomes of the task's earlier code by its digest: equal code is not run again.
        """
        ...

    def close(self) -> None:
        """End all processes."""
        ...


@dataclass(frozen=True)
class MeasureSettings:
    """Parameters of measuring candidates.

    Attributes:
        threads: number of threads of kernels, by default as at run time.
        builders: number of compiling processes, by default one per core.
        least_compile_s, compile_factor: compile time limit of a candidate: the maximum of a number
            of seconds and a multiple of the default's compile time.
        memory: memory limit of the process that runs candidates, by default most of the memory.
        limits, turns: of runs, and of timing.
    """

    threads: int | None = None
    builders: int | None = None
    least_compile_s: float = 10.0
    compile_factor: float = 10.0
    first_compile_s: float = 300.0
    memory: int | None = None
    limits: RunLimits = field(default_factory=RunLimits)
    turns: TurnSettings = field(default_factory=TurnSettings)


def twins_of(
    built: Sequence[Code | CandidateFailed], timed: Mapping[str, Outcome]
) -> dict[int, Outcome]:
    """Return known outcomes of code that was run before, by index."""
    found: dict[int, Outcome] = {}
    for number, code in enumerate(built):
        if isinstance(code, Code) and code.digest in timed:
            found[number] = replace(timed[code.digest], code=code)
    return found


@dataclass(frozen=True)
class Known:
    """Cached data of a task: its workload with the reference results, and its default code."""

    workload: Workload
    default: Code


def workload_of(task: Task, reference: Reference) -> Workload:
    """Return the workload of a task, against which candidates are checked on any machine."""
    return Workload(
        key=task.key,
        arguments=task.arguments,
        expected=reference.expected,
        rtol=max(_RTOL, _ROUNDINGS * reference.precision),
        atol=_ATOL,
        rounds=reference.rounds,
    )


class BatchMeasurer(ABC):
    """Common part of measurers: compile candidates, and find those that need no run.

    Args:
        builders: compile the candidates.
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
        """Return the outcome of each candidate."""
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
        """Check and time code, and report each outcome.

        Args:
            others: code whose runs are interleaved with it, in addition to the default.
        """

    def _workload(self, task: Task) -> Workload:
        """Return the workload against which the candidates of a task are checked."""
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
    """Measure on this machine, with builder processes and one that runs the code.

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
