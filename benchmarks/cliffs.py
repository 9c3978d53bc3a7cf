"""Search for cases that run far slower than in onnxruntime, and shrink them.

    python benchmarks/cliffs.py                                  # 200 cases, seed 0
    python benchmarks/cliffs.py --cases 2000 --seed 7 --output cliffs.json
    python benchmarks/cliffs.py --only convolution product

Networks and layers are drawn at random (`cliff_cases.py`), and runs of both sides are interleaved.
A case slower than the limit is shrunk: its fields become simpler one by one, as long as it stays as
slow. The results are grouped by the schedule rule of the heaviest kernel and the reasons why other
rules did not apply. Each case has a time limit; a process that exceeds it is killed, and the case
is counted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from cliff_cases import SPACES
from cliff_space import Choice
from tcopt.support.errors import InputError, TcoptError
from tcopt.tools.benchmarking.report import geometric_mean
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tools.command_line.text_tables import render

_PEER = "onnxruntime"


@dataclass(frozen=True)
class Found:
    """Measurement of a case.

    Attributes:
        space, fields: the case.
        ratio: the peer's time over ours; 0 if our side failed or took too long.
        ours_ms: our time.
        compile_s: compile time in seconds.
        error: why the ratio is missing; empty otherwise.
        rule: the schedule rule of the heaviest kernel, for slow cases.
        reasons: why other rules and rewrites did not apply to it.
    """

    space: str
    fields: dict[str, Choice]
    ratio: float = 0.0
    ours_ms: float = 0.0
    compile_s: float = 0.0
    error: str = ""
    rule: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the case in one line: the fields that are not the simplest."""
        simplest = {name: values[0] for name, values in SPACES[self.space].fields.items()}
        shown = [f"{n}={v}" for n, v in self.fields.items() if v != simplest[n]]
        return " ".join([self.space, *shown])


def main() -> int:
    """Entry point of the script; returns the exit code."""
    parser = ArgumentParser("cliffs.py", (__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--cases", type=int, default=200, help="how many to draw (200)")
    add("--seed", type=int, default=0, help="of the draws (0)")
    add("--only", nargs="+", metavar="SPACE", help=f"spaces among {', '.join(SPACES)}")
    add("--threads", type=int, default=1, help="threads of both sides (1)")
    add("--rounds", type=int, default=4, help="turns of each side (4)")
    add("--slow", type=float, default=0.8, help="the ratio below which a case is shrunk (0.8)")
    add("--shrinks", type=int, default=40, help="cases to try at most to shrink one (40)")
    add("--limit", type=float, default=60, help="seconds for a case (60)")
    add("--output", type=Path, default=Path("cliffs.json"), help="results (cliffs.json)")
    add("--traceback", action="store_true", help="after an error, print the Python stack")
    args = parser.parse_args()
    return run_tool("cliffs.py", lambda: _search(args), show_traceback=args.traceback)


def _search(args: argparse.Namespace) -> int:
    for name in args.only or ():
        if name not in SPACES:
            raise InputError(f"there is no space '{name}'", hint=f"spaces are {', '.join(SPACES)}")
    names = args.only or list(SPACES)
    rng = np.random.default_rng(args.seed)
    runner = Runner(args)
    found: list[Found] = []
    slow: list[Found] = []
    try:
        for number in range(args.cases):
            space = names[number % len(names)]
            case = runner.measure(space, SPACES[space].draw(rng))
            found.append(case)
            print(f"{number + 1}/{args.cases} {case.ratio:.2f} {case.title} {case.error}")
            if case.error != SKIPPED and case.ratio < args.slow:
                # Measure again, so that other load on the machine does not count as a cliff.
                case = runner.measure(space, case.fields)
                if case.error != SKIPPED and case.ratio < args.slow:
                    # A case far below the limit is shrunk while it stays far below.
                    slow.append(shrink(runner, case, min(args.slow, max(2 * case.ratio, 0.2))))
                    print(f"  slow: {slow[-1].ratio:.2f} {slow[-1].title}")
                else:
                    found[-1] = case
            sys.stdout.flush()
            results = {"cases": [asdict(c) for c in found], "slow": [asdict(c) for c in slow]}
            args.output.write_text(json.dumps(results, indent=1), encoding="utf-8")
    finally:
        runner.stop()
    show(found, slow)
    return 0


SKIPPED = "the peer does not run it"


class Runner:
    """Measures cases in a separate process, which is killed when one takes too long."""

    def __init__(self, args: argparse.Namespace):
        self._args = args
        self.shrinks: int = args.shrinks
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._pipe: Connection | None = None

    def measure(self, space: str, fields: Mapping[str, Choice]) -> Found:
        """Measure a case; a failure or timeout becomes its error."""
        if self._pipe is None:
            self._start()
        pipe = self._pipe
        assert pipe is not None
        case = Found(space, dict(fields))
        pipe.send((case, self._args.threads, self._args.rounds, self._args.slow))
        if not pipe.poll(self._args.limit):
            self.stop()
            return Found(space, dict(fields), error=f"took more than {self._args.limit:.0f} s")
        try:
            return pipe.recv()
        except EOFError:
            self.stop()
            return Found(space, dict(fields), error="the process ended")

    def _start(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._pipe = None


def _serve(pipe: Connection) -> None:
    """Measure cases until the other end closes."""
    while True:
        try:
            case, threads, rounds, slow = pipe.recv()
        except EOFError:
            return
        pipe.send(_measured(case, threads, rounds, slow))


def _measured(case: Found, threads: int, rounds: int, slow: float) -> Found:
    from tcopt.tools.benchmarking.measure import BenchSettings, measure
    from tcopt.tools.benchmarking.report import outcomes
    from tcopt.tools.benchmarking.sides import load_peer

    made = SPACES[case.space].model(case.fields)
    assert made is not None
    model = made.SerializeToString()
    options = {"cache": False, "workers": 0}
    try:
        feeds = {i.name: np.zeros(_shape(i), np.float32) for i in made.graph.input}
        load_peer(_PEER, model, feeds, threads).run()
    except Exception:  # For any error of the peer, there is nothing to compare with.
        return Found(case.space, case.fields, 1.0, error=SKIPPED)
    settings = BenchSettings([threads], rounds, burst_s=0.02, peers=[_PEER], options=options)
    try:
        report, compiled, _ = measure(model, settings)
        outcome = outcomes(report, least=True)[0]
    except TcoptError as error:
        return Found(case.space, case.fields, error=str(error))
    ratio = outcome.ratio or 0.0
    rule, reasons = "", ()
    if ratio < slow:
        calls = sorted(compiled.explain().calls, key=lambda each: -each.share)
        if calls:
            rule = calls[0].call.rule or "opaque"
            reasons = tuple(f"{r.by}: {r.message}" for r in calls[0].remarks if r.missed)
    compile_s = report["compile_s"]["tcopt"]
    return Found(
        case.space, case.fields, ratio, outcome.ours_ms, compile_s, rule=rule, reasons=reasons
    )


def _shape(value: Any) -> list[int]:
    return [d.dim_value for d in value.type.tensor_type.shape.dim]


def shrink(runner: Runner, case: Found, slow: float) -> Found:
    """Return the simplest case that is as slow, simplifying one field after another."""
    space = SPACES[case.space]
    tried: set[tuple[Choice, ...]] = set()
    progress = True
    while progress:
        progress = False
        for fields in space.smaller(case.fields):
            key = tuple(fields.values())
            if key in tried or len(tried) >= runner.shrinks or space.model(fields) is None:
                continue
            tried.add(key)
            simpler = runner.measure(case.space, fields)
            if simpler.error != SKIPPED and simpler.ratio < slow:
                case, progress = simpler, True
                break
    return case


def show(found: list[Found], slow: list[Found]) -> None:
    """Print the table of each space, and the slow cases by rule and reason."""
    table = Table(box=None, pad_edge=False)
    for heading in ("space", "cases", "mean ratio", "least", "below 0.8", "below 0.5", "compile s"):
        table.add_column(heading, justify="left" if heading == "space" else "right")
    for space in dict.fromkeys(case.space for case in found):
        cases = [c for c in found if c.space == space and c.error != SKIPPED]
        ratios = [c.ratio for c in cases]
        if not cases:
            continue
        table.add_row(
            space,
            str(len(cases)),
            f"{geometric_mean([max(r, 1e-3) for r in ratios]):.2f}",
            f"{min(ratios):.2f}",
            str(sum(r < 0.8 for r in ratios)),
            str(sum(r < 0.5 for r in ratios)),
            f"{max(c.compile_s for c in cases):.1f}",
        )
    print(f"\n{render(table)}")
    groups = Counter((c.rule, c.reasons[:1]) for c in slow)
    for (rule, reasons), count in groups.most_common():
        print(f"\n{count} by {rule or 'none'}: {', '.join(reasons) or 'no reason given'}")
        for case in sorted(slow, key=lambda each: each.ratio):
            if (case.rule, case.reasons[:1]) == (rule, reasons):
                print(f"  {case.ratio:.2f} {case.ours_ms:.3f} ms {case.title} {case.error}")


if __name__ == "__main__":
    sys.exit(main())
