"""Run ONNX's cases, and cases with mutated feeds, between guard pages: `make guard`.

Reports out-of-bounds accesses, results from uninitialised memory, crashes and errors other than the
project's; exits 1 if there are any.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.progress import Progress

from conformance.cases import set_home
from memory.children import Work, run_all
from memory.guarded_cases import (
    guarded_case,
    guarded_names,
    is_indexing,
    mutated_case,
    node_cases,
)

MEMORY = 6 << 30
"""Limit of the address space in bytes."""


def _run(title: str, names: Sequence[str], work: Work, options: argparse.Namespace) -> int:
    with Progress() as progress:
        task = progress.add_task(title, total=len(names))

        def show(name: str, outcome: str | None) -> None:
            progress.advance(task)
            if outcome is not None:
                progress.console.print(f"{name}: {outcome}", highlight=False, markup=False)

        outcomes = run_all(
            names,
            work,
            jobs=options.jobs,
            seconds=options.seconds,
            memory=MEMORY,
            progress=show,
        )
    findings = sum(outcome is not None for outcome in outcomes.values())
    print(f"{title}: {len(outcomes)} runs, {findings} findings")
    return findings


def main() -> int:
    """Run what the command line asks for; return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--filter", default="", help="only cases whose name has this regex")
    parser.add_argument("--mutations", type=int, default=1, help="changes for each case (1)")
    parser.add_argument(
        "--more", type=int, default=6, help="changes of those where data decides places (6)"
    )
    parser.add_argument("--seconds", type=int, default=60, help="the longest for a case (60)")
    parser.add_argument("--only", choices=["cases", "feeds"], help="only one of the two parts")
    options = parser.parse_args()
    findings = 0
    with tempfile.TemporaryDirectory() as home:
        set_home(Path(home))
        if options.only != "feeds":
            names = [n for n in guarded_names() if re.search(options.filter, n)]
            findings += _run("cases", names, guarded_case, options)
        if options.only != "cases":
            labels = [
                f"{name}#{number}"
                for name in sorted(node_cases())
                if re.search(options.filter, name)
                for number in range(options.more if is_indexing(name) else options.mutations)
            ]
            findings += _run("changed feeds", labels, mutated_case, options)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
