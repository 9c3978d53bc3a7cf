"""Times of programs and peers on the device, as rows."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any

import numpy as np

from gpus.items import Item, Numbers
from gpus.peers import Peers
from gpus.prepare import Prepared, Preparer, describe
from gpus.rows import Rows
from gpus.sides import EAGER, OURS
from tcopt.runtime.profile import measure_profile

ROUND_S = 0.02
"""Length of a round, unless a single run takes longer."""
MOST_RUNS = 20000
PROFILED_RUNS = 5


class DeviceLostError(Exception):
    """The device refuses everything after a fault; only a new process has it again."""


@dataclass(frozen=True)
class Settings:
    """Options of a run of measurements.

    Attributes:
        rounds: of which the median is taken.
        until: end of the time limit on the clock of `time.time`; None without one.
        patience: seconds that the next measurement may take to be prepared.
        processes: that prepare measurements.
        note: called with the key of the row that is measured next, and "" when there is none.
        lost: whether the device refuses everything.
        most_runs: of a round.
    """

    rounds: int = 7
    until: float | None = None
    patience: float = 120.0
    processes: int = 0
    note: Callable[[str], None] = lambda _: None
    lost: Callable[[], bool] = lambda: False
    most_runs: int = MOST_RUNS

    @property
    def left(self) -> float:
        """Seconds until the time limit."""
        return float("inf") if self.until is None else self.until - time.time()


def timing(seconds: Callable[[int], float], how: Settings) -> dict[str, float]:
    """Microseconds of a run: median, minimum and maximum of rounds, after one that warms up.

    Args:
        seconds: the time of a run, of a number of them one after the other.
    """
    # The first run may load what later ones find.
    once = max(min(seconds(1), seconds(1)), 1e-7)
    runs = min(max(ceil(ROUND_S / once), 1), how.most_runs)
    seconds(runs)
    times = [seconds(runs) * 1e6 for _ in range(how.rounds)]
    return {"us": median(times), "least_us": min(times), "most_us": max(times), "runs": runs}


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest difference, relative to the range of what is expected; infinite if not numbers."""
    worst = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        exact = np.asarray(theirs, np.float64)
        span = float(np.ptp(exact)) or 1.0
        error = np.abs(np.asarray(ours).astype(np.float64).reshape(exact.shape) - exact)
        worst = max(worst, float(np.where(np.isnan(error), np.inf, error).max(initial=0)) / span)
    return worst


def measure_all(
    items: Sequence[Item], target: str, rows: Rows, peers: Peers, how: Settings
) -> bool:
    """Measure all sides of all items that the rows do not have.

    Returns:
        Whether everything was measured, so that nothing is left for another run.
    Raises:
        DeviceLostError: the device needs a new process.
    """
    todo = [item for item in items if any(key not in rows for key in _keys(item, peers))]
    with Preparer(target, how.processes) as preparer:
        answers = preparer.each(todo, min(how.patience, max(how.left, 0.1)))
        for item in todo:
            if how.left <= 0:
                return False
            answer = next(answers)
            if isinstance(answer, TimeoutError) and how.left <= 0:
                return False
            _measure_item(item, answer, rows, peers, how)
            # Memory of the device is freed with what refers to it, partly in cycles.
            del answer
            gc.collect()
    return True


def _keys(item: Item, peers: Peers) -> Iterator[str]:
    yield item.key()
    yield from (item.key(peer) for peer in item.peers if peers.has(peer))


def _measure_item(
    item: Item, answer: Prepared | Exception, rows: Rows, peers: Peers, how: Settings
) -> None:
    facts = {
        "group": item.group,
        "case": item.name,
        "what": item.what,
        "dtype": item.dtype,
        "batch": item.batch,
        "variant": item.variant,
    }

    def row(side: str, measure: Callable[[], Mapping[str, Any]]) -> None:
        key = item.key(side)
        if key in rows:
            return
        how.note(key)
        try:
            values = measure()
        except Exception as error:
            values = {"error": describe(error)}
        _show(rows.add(key, {**facts, "side": side, **values}))
        how.note("")
        if "error" in values and how.lost():
            raise DeviceLostError(key)

    if isinstance(answer, Exception):
        error = {"error": describe(answer)}
        row(OURS, lambda: error)
        return
    if answer.reference is None and item.how is not Numbers.QUANTIZED and peers.has(EAGER):
        try:
            answer.reference = peers.reference(answer)
        except Exception as failed:
            answer.errors["reference"] = describe(failed)
    row(OURS, lambda: _ours(answer, how))
    for name in item.peers:
        if peers.has(name):
            row(name, lambda name=name: _peer(name, answer, peers, how))


def _ours(prepared: Prepared, how: Settings) -> dict[str, Any]:
    program = prepared.program
    if program is None:
        return {"error": prepared.errors[OURS]}
    feeds = [
        array.astype(spec.dtype)
        for array, spec in zip(prepared.feeds.values(), program.inputs, strict=True)
    ]
    session = program.session()
    outputs = session.run(feeds)
    found: dict[str, Any] = {
        **timing(session.seconds, how),
        **_checked(outputs, prepared),
        "compile_s": prepared.seconds,
        "flops": prepared.flops,
        "bytes": prepared.moved,
        "steps": len(program.steps),
    }
    del session
    profile = measure_profile(program, feeds, min(PROFILED_RUNS, how.most_runs), None)
    found["launches"] = [
        {
            "kernel": call.kernel,
            "nodes": ", ".join(call.nodes[:3]),
            "rule": call.rule,
            "us": call.us,
            "work": call.gflops * max(call.us, 1e-3) * 1e3,
            "bytes": call.gbps * max(call.us, 1e-3) * 1e3,
            "threads": call.threads,
            "slow": call.slow,
        }
        for call in profile.calls()
    ]
    return found


def _peer(name: str, prepared: Prepared, peers: Peers, how: Settings) -> dict[str, Any]:
    side = peers.load(name, prepared)
    return {**timing(side.seconds, how), **_checked(side.results(), prepared)}


def _checked(outputs: Sequence[np.ndarray], prepared: Prepared) -> dict[str, Any]:
    if prepared.reference is None:
        reasons = [text for name, text in prepared.errors.items() if name != OURS]
        return {"unchecked": "; ".join(reasons) or "no peer computes it"}
    found = difference(outputs, prepared.reference)
    return {"difference": found, "wrong": not found <= prepared.item.tolerance}


def _show(row: Mapping[str, Any]) -> None:
    parts = [f"{row['key']:60}"]
    if "error" in row:
        parts.append(f"ERROR {row['error']}")
    else:
        parts.append(f"{row['us']:10.1f} us")
        if "difference" in row:
            parts.append(f"difference {row['difference']:.1e}{' WRONG' if row['wrong'] else ''}")
    print("  ".join(parts), flush=True)
