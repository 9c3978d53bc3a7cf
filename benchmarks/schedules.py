"""The schedules that kernels have by default, and which of them a change of the compiler changes.

    python benchmarks/schedules.py write before.json --target cpu:skylake-avx512
    python benchmarks/schedules.py write after.json --target cuda:sm_80 --only conv matmul
    python benchmarks/schedules.py compare before.json after.json [--steps]

Write one with each of two trees of the compiler (the script of one serves both), then compare.
Nothing is measured.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from suites import all_suites
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.recorded import recorded_choice
from tcopt.schedules.rules.rule import facts_of, rules_for, target_kind
from tcopt.support.errors import InputError
from tcopt.support.files import write_output
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tuner.arms import lowered
from tcopt.tuner.tasks import Task, tasks_of

PROG = "schedules"
SUITES = ("conv", "depthwise", "matmul", "memory", "windows")
RULE, CHOICE, STEPS = "rule", "choice", "steps"
Written = Mapping[str, Mapping[str, str]]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_tool(PROG, partial(_run, _parser().parse_args(argv)))


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(PROG, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("what", choices=("write", "compare"))
    add("files", nargs="+", type=Path, metavar="FILE", help="one to write, two to compare")
    add("--target", default="cpu", help="what to schedule for (cpu)")
    add("--only", nargs="+", metavar="SUITE", default=list(SUITES), help="suites, also models")
    add("--precision", default="", metavar="TYPE", help="of layers with weights, such as f16")
    add("--filter", default="", metavar="REGEX", help="cases whose names match")
    add("--steps", action="store_true", help="show how the steps differ")
    return parser


def _run(args: argparse.Namespace) -> int:
    if len(args.files) != (1 if args.what == "write" else 2):
        raise InputError(f"{args.what} takes {'one file' if args.what == 'write' else 'two files'}")
    if args.what == "write":
        found = _written(args)
        write_output(str(args.files[0]), json.dumps(found, indent=1))
        print(f"{args.files[0]}: {len(found)} kernels")
        return 0
    before, after = (json.loads(path.read_text()) for path in args.files)
    return _compare(before, after, args.steps)


def _written(args: argparse.Namespace) -> dict[str, dict[str, str]]:
    suites = all_suites()
    if unknown := sorted(set(args.only) - set(suites)):
        raise InputError(f"there is no suite '{unknown[0]}'", hint=f"there are {', '.join(suites)}")
    found: dict[str, dict[str, str]] = {}
    for case in (case for name in args.only for case in suites[name]):
        if not re.search(args.filter, case.name):
            continue
        known = ("accuracy", "precision", "shapes", "dims")
        options = {name: case.options[name] for name in known if name in case.options}
        if args.precision:
            options["precision"] = args.precision
        for number, task in enumerate(tasks_of(case.build(), args.target, **options)):
            found[f"{case.name} {number} {task.name}"] = _schedule(task)
        print(f"{case.name}: {len(found)} kernels so far", file=sys.stderr, flush=True)
    return found


def _schedule(task: Task) -> dict[str, str]:
    """What is written for a kernel where nobody chooses."""
    function, module = lowered(task.text, task.phases)
    target = module.attributes.get("tcopt.target")
    rules = rules_for(target_kind(target))
    made = find_schedule(function, rules, facts_of(target))
    if made is None:
        return {RULE: "none", CHOICE: "", STEPS: ""}
    choice = json.dumps(recorded_choice(made.sequence))
    rule = made.sequence.attributes["rule"]
    made.sequence.attributes = {}
    return {RULE: str(rule).strip('"'), CHOICE: choice, STEPS: str(made.sequence)}


def _compare(before: Written, after: Written, steps: bool) -> int:
    changed = [name for name in before if name in after and before[name] != after[name]]
    for name in changed:
        old, new = before[name], after[name]
        if old[STEPS] == new[STEPS]:
            print(f"{name}: the same steps; {old[CHOICE]} -> {new[CHOICE]}")
            continue
        print(f"{name}: {old[RULE]} {old[CHOICE]} -> {new[RULE]} {new[CHOICE]}")
        if steps:
            first, second = old[STEPS].splitlines(), new[STEPS].splitlines()
            print("\n".join(list(difflib.unified_diff(first, second, lineterm="", n=1))[2:]))
    others = sorted(set(before) ^ set(after))
    for name in others:
        print(f"{name}: only in the {'first' if name in before else 'second'}")
    same = len(set(before) & set(after)) - len(changed)
    different = sum(before[n][STEPS] != after[n][STEPS] for n in changed)
    print(f"{same} kernels alike, {different} with other steps, {len(others)} on one side only")
    return 0


if __name__ == "__main__":
    sys.exit(main())
