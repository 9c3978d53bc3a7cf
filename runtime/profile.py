"""Profile of a model: the time of each kernel call, with the ONNX nodes it computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.program_sizes import solved_sizes
from tcopt.support.arithmetic.sizes import Extent, substitute, upper_bound
from tcopt.support.processes.cores import default_threads

if TYPE_CHECKING:
    from tcopt.runtime.run_options import RunOptions
    from tcopt.runtime.stopping import Control
    from tcopt.runtime.whole_program import WholeProgram
    from tcopt.support.ir.origins import Origin

Times = NDArray[np.int64]


@dataclass(frozen=True)
class TimedKernel:
    """Static facts of a kernel call.

    Attributes:
        kernel: name of the generated function.
        origin: the ONNX nodes, graph ops and number of scalar operations that it computes.
        bytes: total size of its distinct buffer arguments, which may depend on a run's sizes.
        parallel: whether the kernel may use more than one thread.
        rule: name of the schedule rule of the kernel; empty if there is none.
    """

    kernel: str
    origin: Origin
    bytes: Extent
    parallel: bool
    rule: str = ""
    threads: int = 0
    """Threads of its grid on a device; 0 on a CPU, where the run decides."""
    slow: str = ""
    """Why it is estimated to be many times slower than its target allows; empty if it is not."""
    turns: Extent = 1
    """Number of calls at this point in a run: the trip count of the surrounding loops, which may
    depend on a run's sizes."""


@dataclass(frozen=True)
class KernelTime:
    """The time of a kernel call, or of several that share a kernel.

    Attributes:
        calls: number of calls in a run.
        us: median microseconds in a run, of all these calls together.
        least_us: the minimum over all runs.
        share: part of the time of all kernels, 0 to 1.
        gflops: billions of scalar operations per second, at the median time.
        gbps: billions of bytes per second, if each buffer is moved once.
        threads: maximum number of threads of the kernel.
        slow: why it is far slower than its target allows, if it is.
    """

    kernel: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    rule: str
    calls: int
    us: float
    least_us: float
    share: float
    gflops: float
    gbps: float
    threads: int
    slow: str = ""


@dataclass(frozen=True)
class Profile:
    """The measured runs of a model.

    Attributes:
        kernels: one entry per call, in the order of execution.
        times: [runs, calls, 2] start and end of each call, nanoseconds.
        threads: number of threads of the runs.
        total_us: median microseconds from the first call's start to the last one's end.
    """

    kernels: tuple[TimedKernel, ...]
    times: Times
    threads: int

    @property
    def runs(self) -> int:
        return len(self.times)

    @property
    def total_us(self) -> float:
        if not self.kernels:
            return 0.0
        return float(np.median(self.times[:, -1, 1] - self.times[:, 0, 0])) / 1e3

    def least(self) -> Profile:
        """Return a profile of one run with the minimum time of each call, for busy machines."""
        spans = self.times[:, :, 1] - self.times[:, :, 0]
        ends = np.cumsum(spans.min(axis=0))
        times = np.stack([ends - spans.min(axis=0), ends], axis=1)[np.newaxis]
        return replace(self, times=times)

    def calls(self) -> list[KernelTime]:
        """Return the time of each call, in the order of execution."""
        return self._entries([[i] for i in range(len(self.kernels))])

    def by_kernel(self) -> list[KernelTime]:
        """Return the time of each kernel, summed over its calls, the slowest first."""
        groups: dict[str, list[int]] = {}
        for position, call in enumerate(self.kernels):
            groups.setdefault(call.kernel, []).append(position)
        return sorted(self._entries(list(groups.values())), key=lambda e: -e.us)

    def _entries(self, groups: Sequence[Sequence[int]]) -> list[KernelTime]:
        spans = self.times[:, :, 1] - self.times[:, :, 0]
        sums = [spans[:, list(group)].sum(axis=1) for group in groups]
        medians = [float(np.median(s)) for s in sums]
        whole = sum(medians) or 1.0
        return [
            self._entry(group, median, float(s.min()), median / whole)
            for group, s, median in zip(groups, sums, medians, strict=True)
        ]

    def _entry(self, group: Sequence[int], median: float, least: float, share: float) -> KernelTime:
        calls = [self.kernels[i] for i in group]
        first = calls[0]
        seconds = max(median, 1.0)
        return KernelTime(
            kernel=first.kernel,
            nodes=tuple(dict.fromkeys(name for call in calls for name in call.origin.nodes)),
            ops=first.origin.ops,
            rule=first.rule,
            calls=sum(upper_bound(call.turns) for call in calls),
            us=median / 1e3,
            least_us=least / 1e3,
            share=share,
            gflops=sum(upper_bound(call.origin.work * call.turns) for call in calls) / seconds,
            gbps=sum(upper_bound(call.bytes * call.turns) for call in calls) / seconds,
            threads=first.threads or (self.threads if first.parallel else 1),
            slow=first.slow,
        )

    def as_json(self) -> dict[str, Any]:
        """Return everything but individual times as JSON values."""
        return {
            "runs": self.runs,
            "threads": self.threads,
            "total_us": self.total_us,
            "calls": [asdict(entry) for entry in self.calls()],
        }

    def chrome_trace(self) -> dict[str, Any]:
        """Return the runs as trace events, for chrome://tracing or Perfetto.

        There is one complete event per kernel call with its facts, and one around each run.
        """
        start = int(self.times.min()) if self.times.size else 0
        entries = self.calls()
        events: list[dict[str, Any]] = [
            _metadata("process_name", "tcopt"),
            _metadata("thread_name", "main"),
        ]
        for number, run in enumerate(self.times):
            if not len(run):
                continue
            events.append(_event(f"run {number}", "run", run[0, 0] - start, run[-1, 1] - start))
            for entry, call, (begin, end) in zip(entries, self.kernels, run, strict=True):
                facts = {
                    "nodes": list(entry.nodes),
                    "ops": list(entry.ops),
                    "rule": entry.rule,
                    "threads": entry.threads,
                    "work": upper_bound(call.origin.work),
                    "bytes": upper_bound(call.bytes),
                }
                events.append(_event(call.kernel, "kernel", begin - start, end - start, facts))
        return {"traceEvents": events, "displayTimeUnit": "ms"}


class Instrumented(Protocol):
    """A program with clocks, possibly of several stages."""

    @property
    def parts(self) -> Sequence[WholeProgram]: ...
    def run(
        self,
        feeds: Sequence[NDArray[Any]],
        threads: int | None = None,
        control: Control | None = None,
        options: RunOptions | None = None,
    ) -> Any: ...


def measure_profile(
    program: Instrumented,
    feeds: Sequence[NDArray[Any]],
    runs: int,
    threads: int | None,
    options: RunOptions | None = None,
) -> Profile:
    """Run an instrumented program, and record the times of all runs but the first two."""
    # Programs of later stages are compiled by the first run.
    program.run(feeds, threads, None, options)
    calls = staged_calls([_with_sizes(part, feeds) for part in program.parts])
    times = np.zeros((runs, len(calls), 2), np.int64)
    for run in range(-1, runs):
        program.run(feeds, threads, None, options)
        if run >= 0:
            times[run] = _in_turn([part.times for part in program.parts])
    return Profile(tuple(calls), times, threads or default_threads())


def _with_sizes(program: WholeProgram, feeds: Sequence[NDArray[Any]]) -> Sequence[TimedKernel]:
    """Return the timed calls of a program, with the values that sizes have in a run."""
    calls = program.timed or ()
    if not program.sizes:
        return calls
    shapes = tuple(feed.shape for feed in feeds)
    values = solved_sizes(program.sizes, program.inputs, shapes)
    return [
        replace(
            call,
            origin=replace(call.origin, work=substitute(call.origin.work, values)),
            bytes=substitute(call.bytes, values),
            turns=substitute(call.turns, values),
        )
        for call in calls
    ]


def _in_turn(stages: Sequence[Times]) -> Times:
    """Concatenate the times of stages, shifting clocks of devices that restart with each stage."""
    end, found = 0, list[Times]()
    for times in stages:
        if times.size:
            found.append(times + max(0, end - int(times.min())))
            end = int(found[-1].max())
    return np.concatenate(found) if found else np.zeros((0, 2), np.int64)


def staged_calls(stages: Sequence[Sequence[TimedKernel]]) -> list[TimedKernel]:
    """Return the calls of all stages; kernels of later ones are marked, as names may repeat."""
    found = list(stages[0])
    for number, calls in enumerate(stages[1:], 2):
        found += [replace(call, kernel=f"{call.kernel} (stage {number})") for call in calls]
    return found


def _metadata(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": 1, "tid": 1, "args": {"name": value}}


def _event(
    name: str, category: str, begin: int, end: int, facts: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": 1,
        "tid": 1,
        "ts": float(begin) / 1e3,
        "dur": float(end - begin) / 1e3,
        "args": facts or {},
    }
