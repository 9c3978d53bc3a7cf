"""Interleaved timing of candidates, the default, and the best so far.

Disturbances of the machine then affect all of them. A candidate that takes much longer than the
best is timed once. One whose interval is above the best's is dropped. The others are measured until
their intervals are narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt

from tcopt.tuner.measure.outcomes import NOISY, OK, WRONG, CandidateFailed, Outcome, median
from tcopt.tuner.measure.runner import Runner
from tcopt.tuner.measure.workload import Code, Workload

_LIMIT_TRIES = 5
"""Number of times that the machine's limit is measured again before a time is rejected."""

_SAMPLE_NS = 1e6
"""Approximate duration of a sample: several runs if one is shorter."""
_MOST_CALLS = 2000
_QUANTILES = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20)
"""Quantiles of Student's t-distribution at 97.5 %, by degrees of freedom, starting at 1."""
_MORE_QUANTILE = 2.1


@dataclass(frozen=True)
class TurnSettings:
    """Parameters that determine how long candidates are measured.

    Attributes:
        fewest, most: number of rounds.
        width: relative width of an interval that is narrow enough.
        hopeless: a candidate that takes longer than the best by this factor is timed once.
        noise: relative width of an interval above which it is useless, after all rounds.
        drift: if the default's time changes by more between the first and the last rounds, as many
            rounds again are measured.
        limit_share: factor by which code may exceed the machine's measured limit, which may be too
            low by half if another program uses the other thread of a core.
    """

    fewest: int = 3
    most: int = 10
    width: float = 0.01
    hopeless: float = 2.0
    noise: float = 0.4
    drift: float = 0.03
    limit_share: float = 2.0


@dataclass
class _Contender:
    number: int
    code: Code
    first_ns: float = 0.0
    rounds: list[list[float]] = field(default_factory=list[list[float]])
    beside: list[list[float]] = field(default_factory=list[list[float]])
    """Samples of the default in the same rounds."""
    low: float = 0.0
    high: float = 0.0

    def judge(self) -> None:
        """Compute the confidence interval of the candidate's time relative to the default's."""
        logs = [
            log(median(own) / median(default))
            for own, default in zip(self.rounds, self.beside, strict=True)
        ]
        self.low, self.high = interval(logs)

    @property
    def width(self) -> float:
        """Width of the confidence interval."""
        return self.high - self.low


def interval(logs: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a ratio from logarithms of samples; with fewer than two, 0 to
    infinity.
    """
    count = len(logs)
    mean = sum(logs) / count
    if count < 2:
        return 0.0, float("inf")
    spread = sqrt(sum((x - mean) ** 2 for x in logs) / (count - 1))
    quantile = _QUANTILES[count - 2] if count - 2 < len(_QUANTILES) else _MORE_QUANTILE
    half = quantile * spread / sqrt(count)
    return exp(mean - half), exp(mean + half)


class Turns:
    """Measurement of a batch of candidates of one workload.

    Args:
        default: the number of the default schedule among the codes.
        limit: measures the lower bound of the workload's time again, in nanoseconds.
    """

    def __init__(
        self,
        runner: Runner,
        workload: Workload,
        codes: Mapping[int, Code],
        default: int,
        settings: TurnSettings | None = None,
        limit: Callable[[], float] | None = None,
    ):
        self._runner = runner
        self._least_ns, self._limit = workload.least_ns, limit
        self._codes = codes
        self._default = default
        self._settings = settings or TurnSettings()
        self._share = 0.0
        self._default_ns: float | None = None
        self._first_of: dict[str, int] = {}
        self.outcomes: dict[int, Outcome] = {}

    def run(self) -> dict[int, Outcome]:
        """Check and time all codes; return their outcomes by number."""
        for number, code in self._codes.items():
            self._runner.add(number, code)
        contenders = self._admitted()
        self._rounds(contenders)
        for number, code in self._codes.items():
            self._forget(number)
            if number not in self.outcomes:
                twin = self.outcomes[self._first_of[code.digest]]
                self.outcomes[number] = replace(twin, code=code)
        return self.outcomes

    def _forget(self, number: int) -> None:
        # If this fails, the process is gone, and the code with it.
        with suppress(CandidateFailed):
            self._runner.forget(number)

    # Checks before timing.

    def _admitted(self) -> list[_Contender]:
        """Return the candidates that are correct and not much slower than the best."""
        order = [self._default, *(n for n in self._codes if n != self._default)]
        admitted: list[_Contender] = []
        best = float("inf")
        for number in order:
            code = self._codes[number]
            if code.digest in self._first_of:
                continue  # Candidates with equal code are measured once.
            self._first_of[code.digest] = number
            contender = _Contender(number, code)
            try:
                self._admit(contender)
            except CandidateFailed as error:
                self._fail(contender, error)
                continue
            best = min(best, contender.first_ns)
            admitted.append(contender)
        hopeless = [c for c in admitted if self._is_hopeless(c, best)]
        for contender in hopeless:
            if contender.number != self._default:
                admitted.remove(contender)
                beside = () if self._default_ns is None else (self._default_ns,)
                times = (contender.first_ns,)
                self.outcomes[contender.number] = Outcome(
                    OK, ns=times, default_ns=beside, hopeless=True, code=contender.code
                )
        return admitted

    def _is_hopeless(self, contender: _Contender, best: float) -> bool:
        """Whether it takes much longer than the best, in two measurements."""
        limit = self._settings.hopeless * best
        if contender.first_ns <= limit:
            return False
        with suppress(CandidateFailed):  # If this fails, timing will fail again and report it.
            calls = _calls(contender.first_ns)
            seconds = self._runner.limits.run(self._default_ns)
            again = self._runner.time(contender.number, calls, 1, seconds)[0]
            contender.first_ns = min(contender.first_ns, again)
        return contender.first_ns > limit

    def _admit(self, contender: _Contender) -> None:
        number, is_default = contender.number, contender.number == self._default
        share = self._runner.check(number, self._default_ns, 2 * self._share)
        limit = self._runner.limits.run(self._default_ns)
        once = self._runner.time(number, 1, 1, limit)[0]
        calls = _calls(once)
        if calls > 1:
            once = self._runner.time(number, calls, 1, limit)[0]
        contender.first_ns = once
        self._refuse_too_fast(once)
        if is_default:
            self._share, self._default_ns = share, once

    def _refuse_too_fast(self, ns: float) -> None:
        """Reject a time below the machine's limit, even after the limit was measured again."""
        tries = 0 if self._limit is None else _LIMIT_TRIES
        while ns < (least := self._least_ns / self._settings.limit_share):
            if not tries or self._limit is None:
                raise CandidateFailed(
                    WRONG,
                    f"a run takes {ns:.0f} ns, less than this machine's limit of {least:.0f} ns",
                )
            tries -= 1
            self._least_ns = min(self._least_ns, self._limit())

    def _fail(self, contender: _Contender, error: CandidateFailed) -> None:
        times = tuple(t for samples in contender.rounds for t in samples)
        beside = tuple(t for samples in contender.beside for t in samples)
        self.outcomes[contender.number] = Outcome(
            error.status, error.message, ns=times, default_ns=beside, code=contender.code
        )

    # Timing rounds.

    def _rounds(self, contenders: list[_Contender]) -> None:
        if not contenders:
            return
        base = contenders[0]  # The default, unless it failed.
        most, done = self._settings.most, 0
        while done < most:
            self._round(contenders, base, done)
            if base not in contenders:
                break
            done += 1
            if done < self._settings.fewest:
                continue
            for contender in contenders:
                contender.judge()
            self._drop(contenders, base)
            if self._drifts(base) and done == most:
                most = 2 * self._settings.most if most == self._settings.most else most
            if all(c.width <= self._settings.width for c in contenders):
                break
        for contender in list(contenders):
            self._finish(contender)

    def _round(self, contenders: list[_Contender], base: _Contender, number: int) -> None:
        """Time each candidate once; the order changes from round to round."""
        turn = number % len(contenders)
        samples: dict[int, list[float]] = {}
        for contender in contenders[turn:] + contenders[:turn]:
            calls = _calls(contender.first_ns)
            limit = self._runner.limits.run(self._default_ns or contender.first_ns)
            count = 3 if contender.first_ns * calls < 5 * _SAMPLE_NS else 1
            try:
                samples[contender.number] = self._runner.time(contender.number, calls, count, limit)
            except CandidateFailed as error:
                contenders.remove(contender)
                self._fail(contender, error)
        if base.number not in samples:
            return
        for contender in contenders:
            contender.rounds.append(samples[contender.number])
            contender.beside.append(samples[base.number])

    def _drop(self, contenders: list[_Contender], base: _Contender) -> None:
        best = min(contenders, key=lambda c: c.high)
        for contender in list(contenders):
            if contender.low > best.high and contender is not base and contender is not best:
                contenders.remove(contender)
                self._finish(contender, dropped=True)

    def _drifts(self, base: _Contender) -> bool:
        middles = [median(samples) for samples in base.rounds]
        early, late = median(middles[:2]), median(middles[-2:])
        return abs(late / early - 1) > self._settings.drift

    def _finish(self, contender: _Contender, *, dropped: bool = False) -> None:
        times = tuple(t for samples in contender.rounds for t in samples)
        beside = tuple(t for samples in contender.beside for t in samples)
        has_default = self._default_ns is not None
        if not times:
            times = (contender.first_ns,)
        if not has_default:
            beside = ()  # The baseline samples are not the default's.
        outcome = Outcome(OK, ns=times, default_ns=beside, code=contender.code)
        try:
            self._runner.check_again(contender.number, 2 * self._share)
            self._refuse_too_fast(median(times))
        except CandidateFailed as error:
            self._fail(contender, error)
            return
        if contender.rounds and has_default:
            contender.judge()
            low, high = contender.low, min(contender.high, 1e9)
            outcome = replace(outcome, low=low, high=high)
            # A candidate that was dropped is known to be slower, so its interval may be wide.
            if not dropped and high - low > self._settings.noise * (high + low) / 2:
                text = f"its time is from {low:.3g} to {high:.3g} of the default's"
                outcome = replace(outcome, status=NOISY, error=text)
        self.outcomes[contender.number] = outcome


def _calls(ns: float) -> int:
    return max(1, min(_MOST_CALLS, round(_SAMPLE_NS / max(ns, 1.0))))
