"""Comparison of a tuned model with the untuned one on an accelerator, by cycles.

The time of a run is the simulated time of the accelerator's programs plus the host's time, which is
measured by interleaved runs if its code differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from numpy.typing import NDArray

from tcopt.runtime import Model
from tcopt.runtime.program import Program
from tcopt.runtime.signature import flatten
from tcopt.tuner.whole_models.acceptance import (
    Verdict,
    find_difference,
    interval,
    until_clear,
)

Array = NDArray[Any]
Feeds = Mapping[str, Array]


def judge_with_accelerator(
    untuned: Model,
    tuned: Model,
    feeds: Feeds,
    megahertz: int,
    rounds: int,
    *,
    same_host: bool,
    patience: int = 1,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> Verdict:
    """Compare a tuned model with the untuned one.

    Args:
        feeds: inputs of both.
        megahertz: clock rate of the accelerator.
        rounds: number of interleaved runs of the host; up to `patience` times as many if the result
            is unclear.
        same_host: whether the host's code is the same in both, so that only cycles matter.
        rtol, atol: accepted differences, relative to an output's range and absolute.
    """
    outputs = [flatten(model.run(feeds)) for model in (untuned, tuned)]
    difference = find_difference(outputs[0], outputs[1], rtol, atol)
    before, after = (
        sum(map(cycles_of, _parts(model))) / megahertz / 1e3 for model in (untuned, tuned)
    )
    if same_host:
        speed = before / after if after else 1.0
        return Verdict(speed, speed, speed, before, after, 0, difference)
    hosts: tuple[list[float], list[float]] = [], []

    def turns(count: int) -> list[float]:
        for number in range(count):
            sides = list(zip((untuned, tuned), hosts, strict=True))
            for model, times in sides[:: -1 if number % 2 else 1]:
                times.append(_host_ms(model, feeds))
        return [(old + before) / (new + after) for old, new in zip(*hosts, strict=True)]

    speed, low, high = interval(until_clear(turns, rounds, patience))
    middles = median(hosts[0]) + before, median(hosts[1]) + after
    return Verdict(speed, low, high, *middles, len(hosts[0]), difference)


def cycles_of(program: Program) -> int:
    """Return the total cycles of all program calls in a run."""
    cycles: dict[str, int] = {}
    for call in program.calls:
        if call.symbol not in cycles:
            report = call.report()
            cycles[call.symbol] = 0 if report is None else report.cycles
    return sum(cycles[call.symbol] for call in program.calls)


def _host_ms(model: Model, feeds: Feeds) -> float:
    """Return the host's milliseconds in a run."""
    programs = {call.symbol for part in _parts(model) for call in part.host_functions}
    profile = model.profile(feeds, 1)
    spans = profile.times[:, :, 1] - profile.times[:, :, 0]
    own = [n for n, kernel in enumerate(profile.kernels) if kernel.kernel not in programs]
    return float(spans[:, own].sum()) / 1e6


def _parts(model: Model) -> Sequence[Program]:
    program = model.program
    parts = () if program is None else program.parts
    return [part for part in parts if isinstance(part, Program)]
