"""Kernels tuned here and by TVM's MetaSchedule for the same time, then timed in interleaved runs.

    python benchmarks/metaschedule.py --seconds 300 --json metaschedule.json
    python benchmarks/metaschedule.py --only 'C3$' --seconds 60

TVM is installed in a separate environment (`--environment`), with the packages that
`metaschedule.txt` names. Each side searches one operator, with the same number of threads and of
compile processes; its clock starts after its imports. TVM's kernels have the layouts that suit its
templates best, images [1, height, width, channels] and weights [height, width, in, out]; ours are
whole models in ONNX's layout, with constant weights. The results are timed in alternating bursts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from onnx import ModelProto
from rich.table import Table

import tcopt
from suites.conv import convolution
from suites.matmul import dense
from tcopt.backends.llvm.machine.host import host_target
from tcopt.runtime.random_inputs import input_values
from tcopt.support.errors import InputError
from tcopt.support.files.access import write_output
from tcopt.support.processes.turns import wait_until_idle
from tcopt.tools.benchmarking.machine import machine_facts
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tools.command_line.text_tables import render

PROG = "metaschedule"
HERE = Path(__file__).resolve().parent
ENVIRONMENT = Path.home() / ".cache" / "tcopt" / "metaschedule"

BURST_S = 0.05
"""Approximate duration of a burst."""

Spec = Mapping[str, Any]


def _conv(size: int, cin: int, cout: int, kernel: int, stride: int, groups: int = 1) -> Spec:
    given = {"size": size, "cin": cin, "cout": cout, "kernel": kernel}
    return {"kind": "conv", **given, "stride": stride, "groups": groups}


CASES: Mapping[str, Spec] = {
    "C2": _conv(56, 64, 64, 3, 1),
    "C3": _conv(56, 64, 64, 1, 1),
    "C6": _conv(28, 128, 128, 3, 1),
    "C9": _conv(14, 256, 256, 3, 1),
    "D3": _conv(56, 128, 128, 3, 1, 128),
    "matmul_128x768x3072": {"kind": "matmul", "rows": 128, "terms": 768, "columns": 3072},
}


@dataclass(frozen=True)
class Compared:
    """One operator: milliseconds of both sides, our speed-up burst by burst, the trials that each
    had time for, and the error of TVM's results."""

    case: str
    ours_ms: float
    theirs_ms: float
    speed: float
    untuned_ms: float
    our_trials: int
    their_trials: int
    max_abs: float


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_tool(PROG, partial(_run, _parser().parse_args(argv)))


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(PROG, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--only", default="", metavar="REGEX", help="cases whose names match")
    add("--seconds", type=float, default=300.0, help="of each search (300)")
    add("--trials", type=int, help="end a search after so many, to try things out")
    add("--threads", type=int, default=1, help="that kernels run on (1)")
    add("--rounds", type=int, default=20, help="bursts of each side (20)")
    add("--environment", type=Path, default=ENVIRONMENT, metavar="FOLDER", help="where TVM is")
    add("--json", metavar="FILE", help="write what was measured")
    return parser


def _run(args: argparse.Namespace) -> int:
    python = _environment(args.environment)
    found: list[Compared] = []
    failed: list[str] = []
    for name, spec in CASES.items():
        if re.search(args.only, name):
            try:
                found.append(_compare(name, spec, python, args))
            except InputError as error:
                print(f"{name}: {error.message} ({error.hint})", file=sys.stderr, flush=True)
                failed.append(name)
                continue
            print(_table(found), flush=True)
            if args.json:
                facts = {"machine": machine_facts(), "seconds": args.seconds}
                rows = [vars(each) for each in found]
                text = json.dumps(facts | {"threads": args.threads, "cases": rows}, indent=1)
                write_output(args.json, text)
    if not found and not failed:
        raise InputError("no case has such a name", hint=f"there are {', '.join(CASES)}")
    return 1 if failed else 0


def _environment(folder: Path) -> Path:
    """Return the Python of an environment with TVM, creating it if necessary."""
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"installing TVM into {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*pip, "-r", str(HERE / "metaschedule.txt")], check=False)
        if done.returncode:
            raise InputError(
                "TVM cannot be installed here", hint="see what pip says, or name --environment"
            )
        (folder / ".ready").touch()
    return python


def _compare(name: str, spec: Spec, python: Path, args: argparse.Namespace) -> Compared:
    given = dict(spec) | {
        "cpu": host_target().cpu,
        "threads": args.threads,
        "builders": os.cpu_count(),
        "trials": args.trials,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        _search_theirs(python, given, path, args.seconds)
        model = _model(name, spec)
        tuned_path = path / "ours.tuned.mlir"
        tuning = tcopt.tune(
            model.SerializeToString(),
            seconds=args.seconds,
            trials=args.trials,
            threads=args.threads,
            db=str(path / "records.db"),
            output=tuned_path,
        )
        untuned = tcopt.compile(model, tuned=False)
        ours = tcopt.compile(model, tuned=tuning.path) if tuning.path else untuned
        for each in (untuned, ours):
            each.threads = args.threads
        feeds = input_values(ours, {}, 0)
        theirs = _Theirs(python, given, path)
        try:
            sides = {
                "ours": partial(_seconds, lambda: ours.run(feeds)),
                "untuned": partial(_seconds, lambda: untuned.run(feeds)),
                "theirs": theirs.seconds,
            }
            bursts = _turns(sides, args.rounds)
        finally:
            theirs.close()
        pairs = zip(bursts["ours"], bursts["theirs"], strict=True)
        return Compared(
            name,
            median(bursts["ours"]) * 1e3,
            median(bursts["theirs"]) * 1e3,
            median([other / own for own, other in pairs]),
            median(bursts["untuned"]) * 1e3,
            tuning.trials,
            theirs.facts["trials"],
            theirs.facts["max_abs"],
        )


def _model(name: str, spec: Spec) -> ModelProto:
    if spec["kind"] == "matmul":
        return dense(spec["rows"], spec["terms"], spec["columns"])
    order = ("size", "cin", "cout", "kernel", "stride", "groups")
    return convolution(name, *(spec[each] for each in order))


def _side(python: Path, what: str, spec: Spec, folder: Path) -> subprocess.Popen[str]:
    environment = dict(os.environ) | {"TVM_NUM_THREADS": str(spec["threads"])}
    return subprocess.Popen(
        [str(python), str(HERE / "metaschedule_side.py"), what, json.dumps(spec), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / f"{what}.log").open("w"),
        text=True,
        env=environment,
        start_new_session=True,
    )


def _search_theirs(python: Path, spec: Spec, folder: Path, seconds: float) -> None:
    """Let TVM search for some seconds; its measurements are then in the folder."""
    process = _side(python, "tune", spec, folder)
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "begin":
            raise InputError("TVM does not run here", hint=_tail(folder / "tune.log"))
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            time.sleep(min(1.0, max(end - time.monotonic(), 0.01)))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _Theirs:
    """TVM's best kernel, in a separate process."""

    def __init__(self, python: Path, spec: Spec, folder: Path):
        self._process = _side(python, "time", spec, folder)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.facts: Mapping[str, Any] = json.loads(line) if line else {"error": "it ended"}
        if "error" in self.facts:
            self.close()
            raise InputError(f"TVM: {self.facts['error']}", hint=_tail(folder / "time.log"))

    def seconds(self, runs: int) -> list[float]:
        """Return the seconds of each of this many runs."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{runs}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Kill the process."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _tail(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:])


def _seconds(run: Any, runs: int) -> list[float]:
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def _turns(sides: Mapping[str, Any], rounds: int) -> dict[str, list[float]]:
    """Return the median of each burst of each side; the sides alternate in starting."""
    names = list(sides)
    counts = {name: _count(sides[name]) for name in names}
    bursts: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            wait_until_idle()
            times = sides[name](counts[name])
            bursts[name].append(median(times[len(times) // 4 :]))
    return bursts


def _count(run: Any) -> int:
    """Return the number of runs in a burst."""
    return max(4, min(200, int(BURST_S / max(run(2)[-1], 1e-6))))


def _table(found: Sequence[Compared]) -> str:
    table = Table(box=None)
    for title in ("case", "tcopt ms", "MetaSchedule ms", "speed", "untuned", "trials", "theirs"):
        table.add_column(title, justify="left" if title == "case" else "right")
    for each in found:
        table.add_row(
            each.case,
            f"{each.ours_ms:.3f}",
            f"{each.theirs_ms:.3f}",
            f"{each.speed:.2f}x",
            f"{each.untuned_ms:.3f}",
            str(each.our_trials),
            str(each.their_trials),
        )
    return render(table)


if __name__ == "__main__":
    sys.exit(main())
