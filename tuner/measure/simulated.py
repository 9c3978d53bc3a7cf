"""Candidates for accelerators measured on their simulators: exact, the same on every machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tcopt.support.target_registry import target_named
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
    """Whether a task's times are a simulator's: exact, and not of this machine."""
    return target_named(task.kind).is_simulated


def simulated_machine(task: Task) -> dict[str, Any]:
    """Facts of the machine that is simulated for a task, as records have them."""
    return {"simulated": task.kind, "target": task.target}


def with_simulated_times(tasks: Sequence[Task], measurer: Measurer) -> list[Task]:
    """Tasks, those with a simulator with the time that it gives their default; the longest first.

    One whose default fails has none.
    """
    found: list[Task] = []
    for task in tasks:
        if is_simulated(task):
            (outcome,) = measurer.measure([Candidate(task)])
            task = replace(task, ns=outcome.median_ns if outcome.status == OK else 0.0)
        found.append(task)
    return sorted(found, key=lambda task: -task.weight)


class SimulatedMeasurer(BatchMeasurer):
    """Runs programs on the simulator of their machine, in the processes that compile them.

    Args:
        settings: how long compiling may take, and simulating as well.
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
        """The time of the default, and the seconds that it took to find."""
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
    """Measures what a simulator stands for on it, and the rest on hardware.

    Args:
        hardware: makes what measures the rest, which is not needed before there is any.
    """

    def __init__(self, settings: MeasureSettings, hardware: Callable[[], Measurer]):
        self._settings, self._make = settings, hardware
        self._hardware: Measurer | None = None
        self._simulated: SimulatedMeasurer | None = None

    @property
    def machine(self) -> Mapping[str, Any] | None:
        """Facts of the hardware that measures, if it is not this machine."""
        return getattr(self.hardware, "machine", None)

    @property
    def hardware(self) -> Measurer:
        """What measures where there is no simulator."""
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
        """What becomes of each candidate."""
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
