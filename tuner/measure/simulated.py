"""Measurement of accelerator candidates on simulators: exact, and the same on every machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tcopt.support.registries.target_registry import target_named
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.builders import LocalBuilders
from tcopt.tuner.measure.measurer import (
    BatchMeasurer,
    Known,
    Measurer,
    MeasureSettings,
    Progress,
)
from tcopt.tuner.measure.outcomes import OK, CandidateFailed, Outcome
from tcopt.tuner.measure.workload import Code
from tcopt.tuner.tasks import Task


def is_simulated(task: Task) -> bool:
    """Whether a task's times come from a simulator: exact, and independent of this machine."""
    return target_named(task.kind).is_simulated


def simulated_machine(task: Task) -> dict[str, Any]:
    """Return the facts of the simulated machine of a task, as stored in records."""
    return {"simulated": task.kind, "target": task.target}


def with_simulated_times(tasks: Sequence[Task], measurer: Measurer) -> list[Task]:
    """Set the time of simulated tasks to that of their default; return all tasks, the longest
    first.

    A task whose default fails has time 0.
    """
    found: list[Task] = []
    for task in tasks:
        if is_simulated(task):
            (outcome,) = measurer.measure([Candidate(task)])
            task = replace(task, ns=outcome.median_ns if outcome.status == OK else 0.0)
        found.append(task)
    return sorted(found, key=lambda task: -task.weight)


class SimulatedMeasurer(BatchMeasurer):
    """Run programs on the simulator of their machine, in the processes that compile them.

    Args:
        settings: their limit of the compile time also applies to simulations.
    """

    def __init__(self, settings: MeasureSettings | None = None):
        settings = settings or MeasureSettings()
        self._processes = LocalBuilders(settings.builders)
        super().__init__(settings, self._processes)
        self._defaults: dict[tuple[str, str], tuple[float, float] | CandidateFailed] = {}

    def _run(
        self,
        task: Task,
        known: Known,
        codes: Mapping[int, Code],
        others: Sequence[Code],
        tell: Callable[[int, Outcome], None],
    ) -> None:
        default = self._default(task, known)
        if isinstance(default, CandidateFailed):
            for number in codes:
                tell(number, Outcome(default.status, f"the default: {default.message}"))
            return
        settings, (default_ns, seconds) = self.settings, default
        limit = max(settings.least_compile_s, settings.compile_factor * seconds)
        rest = {n: code for n, code in codes.items() if code.digest != known.default.digest}
        made = self._processes.simulate(
            [code.data for code in rest.values()], known.workload, task.target, limit
        )
        found = dict(zip(rest, made, strict=True))
        for number, code in codes.items():
            ns = found.get(number, default_ns)
            if isinstance(ns, CandidateFailed):
                tell(number, Outcome(ns.status, ns.message, code=code))
                continue
            ratio = ns / default_ns
            tell(number, Outcome(OK, "", (ns,), (default_ns,), ratio, ratio, code=code))

    def _default(self, task: Task, known: Known) -> tuple[float, float] | CandidateFailed:
        """Return the time of the default, and the seconds that its simulation took."""
        place = task.key, task.target_key
        if place not in self._defaults:
            start = time.perf_counter()
            (ns,) = self._processes.simulate(
                [known.default.data], known.workload, task.target, self.settings.first_compile_s
            )
            taken = time.perf_counter() - start
            self._defaults[place] = ns if isinstance(ns, CandidateFailed) else (ns, taken)
        return self._defaults[place]


class PlacedMeasurer:
    """Measure simulated tasks on simulators, and all others on hardware.

    Args:
        hardware: creates the measurer of the other tasks, when the first one is measured.
    """

    def __init__(self, settings: MeasureSettings, hardware: Callable[[], Measurer]):
        self._settings, self._make = settings, hardware
        self._hardware: Measurer | None = None
        self._simulated: SimulatedMeasurer | None = None

    @property
    def machine(self) -> Mapping[str, Any] | None:
        """Facts of the measuring hardware, if it is not this machine."""
        return getattr(self.hardware, "machine", None)

    @property
    def hardware(self) -> Measurer:
        """The measurer of tasks that have no simulator."""
        if self._hardware is None:
            self._hardware = self._make()
        return self._hardware

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
        if not is_simulated(candidates[0].task):
            return self.hardware.measure(candidates, best=best, done=done, timed=timed)
        if self._simulated is None:
            self._simulated = SimulatedMeasurer(self._settings)
        return self._simulated.measure(candidates, done=done, timed=timed)

    def close(self) -> None:
        """End all processes."""
        for each in (self._hardware, self._simulated):
            if each is not None:
                each.close()
