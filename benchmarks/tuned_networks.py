"""Networks tuned for some minutes each, against untuned ones and other runtimes.

    python benchmarks/tuned_networks.py --folder tuned --seconds 600 --threads 1 2
    python benchmarks/tuned_networks.py --folder tuned --only resnet50 dqn --threads 2
    python benchmarks/tuned_networks.py --folder tuned --compare   # with the lock files there are
    python benchmarks/tuned_networks.py --folder tuned --report

The folder has, for each number of threads, the models with their lock files, one database of
records, and `results.json`, written after each network. A network without a lock file is compared
unchanged: tuning found no improvement beyond noise. Times are medians, ratios the medians over
interleaved rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import tcopt
from suites.models import CASES
from tcopt.compiler.tuned import lock_beside
from tcopt.runtime.random_inputs import input_values
from tcopt.runtime.signature import flatten
from tcopt.schedules.tuning.lock_file import read_lock
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.access import write_output
from tcopt.support.processes.cores import default_threads
from tcopt.support.processes.turns import speed, take_turns
from tcopt.tools.benchmarking.machine import machine_facts
from tcopt.tools.benchmarking.sides import load_peer
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tuner.whole_models.acceptance import find_difference, interval, ratios

PROG = "tuned_networks"
PEERS = ("onnxruntime", "openvino")

FAR = 1.1
"""Speed-up from which the default of a tuned kernel counts as slow."""

Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    args = _parser().parse_args(argv)
    return run_tool(PROG, partial(_run, args), show_traceback=args.traceback)


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(PROG, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--folder", type=Path, required=True, help="of models, lock files, records and results")
    add("--only", nargs="+", metavar="NAME", help="networks (all of the benchmarks)")
    add("--threads", type=int, nargs="+", default=[1, default_threads()], help="(1, and all)")
    add("--seconds", type=float, default=600.0, help="that each is tuned for (600)")
    add("--rounds", type=int, default=20, help="turns of each side (20)")
    add("--compare", action="store_true", help="tune nothing")
    add("--report", action="store_true", help="only show the results there are")
    add("--traceback", action="store_true", help="after an error, print the Python stack")
    return parser


def _run(args: argparse.Namespace) -> int:
    output = args.folder / "results.json"
    rows: dict[tuple[str, int], Row] = {}
    if output.is_file():
        rows = {(r["network"], r["threads"]): r for r in json.loads(output.read_text())["rows"]}
    known = {case.name: case for case in CASES if not case.options}
    names = args.only or list(known)
    if unknown := sorted(set(names) - set(known)):
        raise InputError(
            f"there is no network '{unknown[0]}'", hint=f"there are {', '.join(known)}"
        )
    for threads in () if args.report else dict.fromkeys(args.threads):
        for name in names:
            path = args.folder / f"threads-{threads}" / f"{name}.onnx"
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_output(path, known[name].build().SerializeToString())
            found: Mapping[str, Any] = rows.get((name, threads), {}).get("search", {})
            if not args.compare:
                found = tune(path, args.seconds, args.folder / "records.db", threads)
            row = {"network": name, "threads": threads, "search": dict(found)}
            rows[name, threads] = row | compare(path, threads, args.rounds)
            told = {"machine": machine_facts(), "rows": list(rows.values())}
            write_output(output, json.dumps(told, indent=1) + "\n")
            print(table([rows[name, threads]]), flush=True)
            gc.collect()
    chosen = [row for row in rows.values() if row["network"] in names]
    for threads in sorted({row["threads"] for row in chosen}):
        print(f"\n**{threads} thread{'s' if threads > 1 else ''}**\n")
        print(table([row for row in chosen if row["threads"] == threads]))
    return 0


def tune(path: Path, seconds: float, db: Path, threads: int) -> Row:
    """Search again, discarding the previous lock file."""
    lock_beside(path).unlink(missing_ok=True)
    print(f"{path.stem}, {threads} threads", flush=True)
    found = tcopt.tune(path, seconds=seconds, db=str(db), threads=threads, progress=print)
    return {"trials": found.trials, "seconds": found.seconds, "ended": found.ended}


def compare(path: Path, threads: int, rounds: int) -> Row:
    """Time untuned, tuned and the other runtimes in interleaved runs."""
    untuned = tcopt.compile(path, tuned=False)
    feeds = input_values(untuned, {}, 0)
    lock, models = lock_beside(path), {"untuned": untuned}
    if lock.is_file():
        models["tuned"] = tcopt.compile(path)
    for model in models.values():
        model.threads = threads
    sides: dict[str, Callable[[], Sequence[Any]]]
    sides = {name: partial(model.run, feeds) for name, model in models.items()}
    failed: dict[str, str] = {}
    for peer in PEERS:
        try:
            sides[peer] = load_peer(peer, str(path), feeds, threads).run
        except TcoptError as error:
            failed[peer] = error.message
    outputs = {name: flatten(list(run())) for name, run in sides.items()}
    best = "tuned" if "tuned" in models else "untuned"
    others = [peer for peer in PEERS if peer in sides]
    difference = find_difference(outputs[others[0]], outputs[best], 1e-3, 1e-4) if others else ""
    times = take_turns(sides, rounds)
    gain, low, high = interval(ratios(times[best], times["untuned"]))
    gains = [entry.gain for entry in read_lock(lock).kernels.values()] if best == "tuned" else []
    return {
        "ms": {name: each.median * 1e3 for name, each in times.items()},
        "gain": gain,
        "interval": (low, high),
        "kernels": len(gains),
        "far": sorted((gain for gain in gains if gain > FAR), reverse=True),
        "speed": {peer: speed(times[best], times[peer]) for peer in others},
        "untuned_speed": {peer: speed(times["untuned"], times[peer]) for peer in others},
        "difference": difference,
        "failed": failed,
    }


def table(rows: Sequence[Row]) -> str:
    """Markdown; a row for each network, and the geometric mean."""
    head = ["network", "trials", "untuned ms", "tuned ms", "gain (95 %)", "kernels", "from 1.1x"]
    head += [*PEERS, "times the faster, untuned", "tuned"]
    lines = [_line(head), "|" + "---|" * len(head)]
    for row in rows:
        ms, (low, high) = row["ms"], row["interval"]
        gain = f"{row['gain']:.3f} ({low:.3f}-{high:.3f})" if "tuned" in ms else "-"
        cells = [row["network"], str(row["search"].get("trials", "-")), _ms(ms["untuned"])]
        cells += [_ms(ms.get("tuned")), gain, str(row["kernels"])]
        cells.append(", ".join(f"{each:.2f}" for each in row["far"]) or "-")
        cells += [_ms(ms.get(peer)) for peer in PEERS]
        cells += [f"{_least(row, name):.2f}" for name in ("untuned_speed", "speed")]
        lines.append(_line(cells) + (f" {row['difference']}" if row["difference"] else ""))
    if len(rows) > 1:
        means = [geometric_mean(row["gain"] if "tuned" in row["ms"] else 1.0 for row in rows)]
        means += [
            geometric_mean(_least(row, name) for row in rows) for name in ("untuned_speed", "speed")
        ]
        shown = [f"{mean:.3f}" for mean in means]
        lines.append(_line(["geometric mean", "", "", "", shown[0], "", "", "", "", *shown[1:]]))
    return "\n".join(lines)


def _least(row: Row, name: str) -> float:
    """Return the speed-up over the fastest other runtime; 1 if there is none."""
    return min(row[name].values(), default=1.0)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
