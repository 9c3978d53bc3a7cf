"""Run ONNX's node cases with ranges for the dimensions of their inputs: `make sizes`.

The cases that the compiler refuses to open are listed in refused.txt, each with its dimensions.
The run fails if another case is refused, or more dimensions are; otherwise it writes the file.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.progress import Progress

from memory.children import run_all
from sizes.opening import check_case, sized_cases

REFUSED = Path(__file__).with_name("refused.txt")


def refused_cases() -> dict[str, str]:
    """Return the refusal of each case that is listed."""
    lines = REFUSED.read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def is_worse(problem: str | None, listed: str | None) -> bool:
    """Whether a problem is more than the one that is listed."""
    if problem is None or problem == listed:
        return False
    is_refusal = problem.startswith("refuses") and listed is not None
    return not is_refusal or not {*_dimensions(problem)} <= {*_dimensions(listed or "")}


def _dimensions(problem: str) -> list[str]:
    return problem.removeprefix("refuses ").split(", ")


def main() -> int:
    """Run what the command line asks for; return 1 if a case is worse than listed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--filter", default="", help="only cases whose name has this regex")
    parser.add_argument("--accept", action="store_true", help="list all refusals of this run")
    options = parser.parse_args()
    names = [name for name in sized_cases() if re.search(options.filter, name)]
    listed = refused_cases()
    with Progress() as progress:
        task = progress.add_task("sizes", total=len(names))
        outcomes = run_all(
            names,
            check_case,
            jobs=options.jobs,
            seconds=120,
            progress=lambda name, problem: progress.advance(task),
        )
    problems = {name: problem for name, problem in outcomes.items() if problem is not None}
    worse = [name for name in sorted(problems) if is_worse(problems[name], listed.get(name))]
    print(f"{len(names) - len(problems)} of {len(names)} cases serve ranges of all dimensions")
    for name in worse:
        print(f"{name}: {problems[name]}")
    if worse and not options.accept:
        return 1
    listed = {name: problem for name, problem in listed.items() if name not in outcomes}
    rows = sorted({**listed, **problems}.items())
    REFUSED.write_text("".join(f"{name}: {problem}\n" for name, problem in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
