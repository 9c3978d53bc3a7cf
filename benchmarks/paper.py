"""docs/paper.md: published claims about TVM one by one, answered from saved results.

It also writes docs/gpu_performance.md, all rows of `gpu.py`.

    python benchmarks/paper.py                          # write the page and its figures
    python benchmarks/paper.py --measure fusion spaces  # run campaigns, then write
    python benchmarks/paper.py --measure all --rounds 7
    python benchmarks/paper.py --check                  # exit 1 if the page is out of date

Results are in benchmarks/results. Other benchmarks write theirs by `--json`, and `gpu.py` by
`--output benchmarks/results/gpu.jsonl`.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from claims.page import GPU_PAGE, PAGE, figures, page
from claims.results import Results
from gpus.tables import page as gpu_page
from saved import FOLDER, save
from tcopt.support.files.access import write_output
from tcopt.tools.command_line.cli import ArgumentParser, run_tool

PROG = "paper.py"
CAMPAIGNS = (
    "bits",
    "fusion",
    "sharing",
    "batched",
    "layers",
    "networks",
    "arm_loops",
    "spaces",
    "tasks",
    "scoring",
    "gpu_programs",
    "mali",
    "lines",
    "quantised",
)
"""Functions of `claims.campaigns`, each of which writes the result of its name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = ArgumentParser(PROG, (__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--measure", nargs="+", choices=["all", *CAMPAIGNS], default=(), help="campaigns to run")
    add("--rounds", type=int, default=7, help="interleaved rounds (7)")
    add("--check", action="store_true", help="only say whether the page is up to date")
    add("--no-figures", action="store_true", help="leave the figures as they are")
    return run_tool(PROG, partial(_run, parser.parse_args(argv)))


def _run(args: argparse.Namespace) -> int:
    chosen = CAMPAIGNS if "all" in args.measure else args.measure
    for name in chosen:
        _measure(name, args.rounds)
    results = Results()
    pages = {PAGE: page(results), GPU_PAGE: gpu_page(results.gpu)}
    if args.check:
        old = [
            path
            for path, text in pages.items()
            if not path.exists() or path.read_text(encoding="utf-8") != text
        ]
        for path in old:
            print(f"{path} is out of date: run benchmarks/paper.py", file=sys.stderr)
        return 1 if old else 0
    for path, text in pages.items():
        write_output(path, text)
    if not args.no_figures:
        figures(Results())
    return 0


def _measure(name: str, rounds: int) -> None:
    # It imports the compiler and all models, which the page does not need.
    from claims import campaigns

    campaign: Callable[..., Iterator[dict[str, Any]]] = getattr(campaigns, name)
    given = {"rounds": rounds} if "rounds" in inspect.signature(campaign).parameters else {}
    rows: list[dict[str, Any]] = []
    command = f"python benchmarks/paper.py --measure {name}"
    for row in campaign(**given):
        print(name, row, flush=True)
        rows.append(row)
        save(FOLDER / f"{name}.json", command, rows, **given)


if __name__ == "__main__":
    sys.exit(main())
