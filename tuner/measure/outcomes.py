"""What became of a candidate: a typed outcome, never an exception of the tuner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcopt.support.errors import TcoptError
from tcopt.tuner.measure.workload import Code

OK = "ok"
INVALID = "invalid"
"""The rule does not take the choice, or a step of the schedule is refused."""
COMPILE_ERROR = "compile_error"
COMPILE_TIMEOUT = "compile_timeout"
CRASH = "crash"
"""The process that ran it ended, or it found too little memory."""
RUN_TIMEOUT = "run_timeout"
WRONG = "wrong"
"""Its results are, or it touches memory that is not its own, or no code can be as fast."""
NOISY = "noisy"
"""Its times differ too much to be of use."""
LOST = "lost"
"""The worker that had it is gone, and nobody knows whether it was the candidate's fault."""

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
    """A candidate did.

    Attributes:
        status: one of `STATUSES`.
    """

    code = "candidate-failed"

    def __init__(self, status: str, message: str):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate.

    Attributes:
        status: one of `STATUSES`; `error` says more where it is not `ok`.
        ns: nanoseconds of a run, as often as it was timed.
        default_ns: those of the default schedule, in the same rounds.
        low, high: the interval, at 95 %, of its time as a part of the default's; both 0 where it
            was not measured in turns.
        hopeless: whether it was timed once only, as it took much longer than the best.
        code: what it was compiled to, if it was.
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
        """The middle of its times; infinite where there are none."""
        return median(self.ns) if self.ns and self.status == OK else float("inf")

    @property
    def mad_ns(self) -> float:
        """The middle of how far its times are from that."""
        return median([abs(t - median(self.ns)) for t in self.ns]) if self.ns else 0.0

    @property
    def ratio(self) -> float:
        """Its time as a part of the default's in the same rounds; infinite where that is not
        known."""
        if self.status != OK or not self.ns or not self.default_ns:
            return float("inf")
        if self.low and self.high:
            return (self.low * self.high) ** 0.5
        return median(self.ns) / median(self.default_ns)


def median(values: Sequence[float]) -> float:
    """The middle of some numbers."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
