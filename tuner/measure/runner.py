"""The process of one device in which candidates run, one after the other, as seen from outside.

It serves all candidates, and is replaced when one of them ends it, does not end, writes where
it should not, or may have broken the device: after an illegal access on a CUDA device every call
of the process fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcopt.support.errors import InputError, ResourceError, UnsupportedError
from tcopt.support.processes.child_process import ChildError, ChildProcess
from tcopt.support.processes.messages import Part
from tcopt.tuner.measure.children import ask_child, memory_for_child
from tcopt.tuner.measure.outcomes import CRASH, WRONG, CandidateFailed
from tcopt.tuner.measure.values import SETS
from tcopt.tuner.measure.workload import Code, Workload

_CHILD = "tcopt.tuner.measure.runner_child"
_REFUSALS = frozenset({ResourceError.code, UnsupportedError.code, InputError.code})
"""Codes of errors that leave the process and its device usable."""
_OWN_LIMIT = 120.0
"""Seconds for what the process does itself: writing inputs, comparing results."""


@dataclass(frozen=True)
class RunLimits:
    """How long things may take, in seconds.

    Attributes:
        first: a run of the default schedule, of which nothing is known.
        least, factor: a run of another one: so long, or so many times as long as the default.
        load: linking an object; a device's compiler takes longer.
        first_launch: what a device's code may take beside, the first time: some compile a kernel
            for a size of work-groups when it is launched with it.
    """

    first: float = 60.0
    least: float = 0.2
    factor: float = 10.0
    load: float = 60.0
    first_launch: float = 20.0

    def run(self, default_ns: float | None) -> float:
        """For one run."""
        if default_ns is None:
            return self.first
        return max(self.least, self.factor * default_ns * 1e-9)


class Runner:
    """Runs candidates on one device.

    Args:
        device: the kind of target: `cpu`, `opencl`, `cuda`.
        threads: that kernels may use, as when the model runs.
        memory: bytes that the process may take, on a CPU; by default most of the machine's.
    """

    def __init__(
        self,
        device: str = "cpu",
        threads: int = 1,
        limits: RunLimits | None = None,
        memory: int | None = None,
    ):
        self.device = device
        self.threads = threads
        self.limits = limits or RunLimits()
        limit = memory_for_child() if memory is None else memory
        self._child = ChildProcess(
            _CHILD, device, memory=limit if device == "cpu" else 0, quiet=True
        )
        self._workload: Workload | None = None
        self._codes: dict[int, Code] = {}
        self._loaded: set[int] = set()
        self._launched: set[int] = set()
        self._ready = False

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        return self._child.pid

    @property
    def started(self) -> int:
        """How many processes there have been."""
        return self._child.started

    def use(self, workload: Workload) -> None:
        """Take another workload; all code is forgotten."""
        self._workload = workload
        self._codes = {}
        self._loaded = set()
        self._ready = False

    def add(self, number: int, code: Code) -> None:
        """Let a number stand for code; it is loaded when it is first needed."""
        self._codes[number] = code

    def forget(self, number: int) -> None:
        """Unload code."""
        self._codes.pop(number, None)
        if number in self._loaded and self._ready:
            self._loaded.discard(number)
            self._launched.discard(number)
            self._ask({"forget": number}, _OWN_LIMIT)

    def check(self, number: int, default_ns: float | None, least_share: float = 0.0) -> float:
        """See whether results are right, for all sets of inputs, on one thread and on all.

        Args:
            default_ns: what the default takes, which limits this one.
            least_share: an error of this part of an output's magnitude is accepted anyway.
        Returns:
            The largest error, as a part of the magnitude.
        Raises:
            CandidateFailed: it crashed, did not end, or is wrong.
        """
        share = 0.0
        for kind in range(SETS):
            for threads in dict.fromkeys((1, self.threads)):
                self._ensure(number)
                self._ask({"fill": kind, "code": number}, _OWN_LIMIT)
                # With one thread, the default takes up to so many times as long, too.
                limit = self.limits.run(default_ns) * (self.threads if threads == 1 else 1)
                self._call(number, threads, limit)
                share = max(share, self._compare(number, kind, least_share))
        return share

    def check_again(self, number: int, least_share: float) -> None:
        """See whether one more run is right, after those that were timed.

        Raises:
            CandidateFailed: it is not.
        """
        self._ensure(number)
        self._ask({"fill": SETS - 1, "code": number}, _OWN_LIMIT)
        self._call(number, self.threads, self.limits.first)
        self._compare(number, SETS - 1, least_share)

    def time(self, number: int, calls: int, samples: int, limit: float) -> list[float]:
        """Nanoseconds of a run, as often as asked for.

        Args:
            calls: runs one after the other that are timed as one.
            limit: seconds of a run.
        Raises:
            CandidateFailed: it crashed, or did not end.
        """
        self._ensure(number)
        untimed = max(1, calls // 4)
        request = {
            "time": number,
            "calls": calls,
            "samples": samples,
            "untimed": untimed,
            "threads": self.threads,
        }
        runs = untimed + calls * samples
        limit *= max(1.0, runs / self.limits.factor)
        found: list[float] = self._ask(request, limit + self._to_launch(number))["ns"]
        self._launched.add(number)
        return found

    def stop(self) -> None:
        """End the process."""
        self._ready = False
        self._child.stop()

    def _compare(self, number: int, kind: int, least_share: float) -> float:
        request = {"check": number, "set": kind, "least_share": least_share}
        reply = self._ask(request, _OWN_LIMIT)
        if "wrong" in reply:
            self.stop()  # What it has written beside its buffers may be anything.
            raise CandidateFailed(WRONG, reply["wrong"])
        return float(reply["share"])

    def _ensure(self, number: int) -> None:
        """Have a process that has the workload and the code."""
        assert self._workload is not None
        if not self._ready:
            self._ask({"workload": True}, _OWN_LIMIT, self._workload.to_bytes())
            self._ready = True
            self._loaded = set()
            self._launched = set()
        if number not in self._loaded:
            code = self._codes[number].to_bytes()
            self._ask({"load": number}, self.limits.load, code)
            self._loaded.add(number)
            if len(self._loaded) > 1:
                # It may not have been there when inputs were written to a new process.
                return
            self._ask({"fill": SETS - 1, "code": number}, _OWN_LIMIT)

    def _call(self, number: int, threads: int, limit: float) -> None:
        """Run once."""
        self._ask({"call": number, "threads": threads}, limit + self._to_launch(number))
        self._launched.add(number)

    def _to_launch(self, number: int) -> float:
        """Seconds that a device may take beside the run itself."""
        first = self.device != "cpu" and number not in self._launched
        return self.limits.first_launch if first else 0.0

    def _ask(self, request: dict[str, Any], limit: float, *parts: Part) -> dict[str, Any]:
        try:
            return ask_child(self._child, request, parts, limit=limit)[0]
        except CandidateFailed:
            self.stop()
            raise
        except ChildError as error:
            if error.reported not in _REFUSALS:
                self.stop()
            raise CandidateFailed(CRASH, f"{error.reported}: {error.message}") from None
