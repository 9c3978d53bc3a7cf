"""Outcomes of candidates: typed values instead of exceptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcopt.support.errors import TcoptError
from tcopt.tuner.measure.workload import Code

OK = "ok"
INVALID = "invalid"
"""The rule's choice or a step of the schedule is illegal."""
COMPILE_ERROR = "compile_error"
COMPILE_TIMEOUT = "compile_timeout"
CRASH = "crash"
"""The process that ran the candidate died or ran out of memory."""
RUN_TIMEOUT = "run_timeout"
WRONG = "wrong"
"""The results are wrong, an access is out of bounds, or the time is impossibly short."""
NOISY = "noisy"
"""The measured times vary too much to be useful."""
LOST = "lost"
"""The worker that ran the candidate disappeared, for an unknown reason."""

STATUSES = (
    OK,
    INVALID,
    COMPILE_ERROR,
    COMPILE_TIMEOUT,
    CRASH,
    RUN_TIMEOUT,
    WRONG,
    NOISY,
    LOST,
)


class CandidateFailed(TcoptError):
    """Failure of a candidate.

    Attributes:
        status: one of `STATUSES`.
    """

    code = "candidate-failed"

    def __init__(self, status: str, message: str):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Outcome:
    """The outcome of a candidate.

    Attributes:
        status: one of `STATUSES`; unless it is `ok`, `error` describes the failure.
        ns: nanoseconds of a run, one entry per sample.
        default_ns: those of the default schedule, in the same rounds.
        low, high: the 95 % interval of its time relative to the default's; both 0 if their runs
            were not interleaved.
        hopeless: whether it was timed only once, as it took much longer than the best.
        code: the compiled code, if it compiled.
    """

    status: str
    error: str = ""
    ns: tuple[float, ...] = ()
    default_ns: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0
    hopeless: bool = False
    code: Code | None = None

    @property
    def median_ns(self) -> float:
        """Median of the candidate's times; infinite if there are none."""
        return median(self.ns) if self.ns and self.status == OK else float("inf")

    @property
    def mad_ns(self) -> float:
        """Median absolute deviation of the candidate's times."""
        return median([abs(t - median(self.ns)) for t in self.ns]) if self.ns else 0.0

    @property
    def ratio(self) -> float:
        """Time of the candidate relative to the default's in the same rounds, or infinity."""
        if self.status != OK or not self.ns or not self.default_ns:
            return float("inf")
        if self.low and self.high:
            return (self.low * self.high) ** 0.5
        return median(self.ns) / median(self.default_ns)


def median(values: Sequence[float]) -> float:
    """Return the median of some values."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
