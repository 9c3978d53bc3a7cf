"""The default schedules of kernels, and which of them a change of the compiler affects.

    python benchmarks/schedules.py write before.json --target cpu:skylake-avx512
    python benchmarks/schedules.py write after.json --target cuda:sm_80 --only conv matmul
    python benchmarks/schedules.py compare before.json after.json [--steps]
    python benchmarks/schedules.py time before.json --target cpu --threads 1

Write one with each of two versions of the compiler (using the same script), then compare: nothing
is measured. `time` runs the kernels whose defaults changed in this version, interleaved with the
choices of a file, on this machine.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from suites import all_suites
from tcopt.compiler.options import CompileOptions
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.recorded import recorded_choice
from tcopt.schedules.rules.rule import facts_of, rules_for, target_kind
from tcopt.support.errors import InputError
from tcopt.support.files.access import write_output
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tuner.arms import arms_of, lowered
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import LocalMeasurer, MeasureSettings
from tcopt.tuner.measure.outcomes import OK
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
    add("what", choices=("write", "compare", "time"))
    add("files", nargs="+", type=Path, metavar="FILE", help="one to write or time, two to compare")
    add("--target", default="cpu", help="what to schedule for (cpu)")
    add("--only", nargs="+", metavar="SUITE", default=list(SUITES), help="suites, also models")
    add("--precision", default="", metavar="TYPE", help="of layers with weights, such as f16")
    add("--filter", default="", metavar="REGEX", help="cases whose names match")
    add("--threads", type=int, default=1, metavar="N", help="to time with (1)")
    add("--steps", action="store_true", help="show how the steps differ")
    return parser


def _run(args: argparse.Namespace) -> int:
    if len(args.files) != (2 if args.what == "compare" else 1):
        raise InputError(
            f"{args.what} takes {'two files' if args.what == 'compare' else 'one file'}"
        )
    if args.what == "time":
        return _time(args, json.loads(args.files[0].read_text()))
    if args.what == "write":
        found = _written(args)
        write_output(str(args.files[0]), json.dumps(found, indent=1))
        print(f"{args.files[0]}: {len(found)} kernels")
        return 0
    before, after = (json.loads(path.read_text()) for path in args.files)
    return _compare(before, after, args.steps)


def _written(args: argparse.Namespace) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for case, tasks in _cases(args):
        found |= {name: _schedule(task) for name, task in tasks.items()}
        print(f"{case}: {len(found)} kernels so far", file=sys.stderr, flush=True)
    return found


def _cases(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Task]]]:
    """Yield the kernels of each case, by name."""
    suites = all_suites()
    if unknown := sorted(set(args.only) - set(suites)):
        raise InputError(f"there is no suite '{unknown[0]}'", hint=f"there are {', '.join(suites)}")
    for case in (case for name in args.only for case in suites[name]):
        if not re.search(args.filter, case.name):
            continue
        known = ("accuracy", "precision", "shapes", "dims")
        options = {name: case.options[name] for name in known if name in case.options}
        if args.precision:
            options["precision"] = args.precision
        tasks = tasks_of(case.build(), CompileOptions(target=args.target, **options))
        yield case.name, {f"{case.name} {n} {task.name}": task for n, task in enumerate(tasks)}


def _time(args: argparse.Namespace, before: Written) -> int:
    """Run changed defaults interleaved with the previous ones."""
    with LocalMeasurer(MeasureSettings(threads=args.threads)) as measurer:
        for name, task in (each for _, tasks in _cases(args) for each in tasks.items()):
            old, new = before.get(name), _schedule(task)
            if old is None or old[STEPS] == new[STEPS]:
                continue
            choice = _choice_of(task, old)
            if choice is None:
                print(f"{name}: {old[RULE]} does not take {old[CHOICE]} any more")
                continue
            (outcome,) = measurer.measure([Candidate(task, old[RULE], choice)])
            speed = outcome.error
            if outcome.status == OK:
                interval = f"({outcome.low:.3f}-{outcome.high:.3f})"
                speed = f"{outcome.ratio:.3f}x as fast as before {interval}"
            print(f"{name}: {speed}; {old[CHOICE]} -> {new[CHOICE]}", flush=True)
    return 0


def _choice_of(task: Task, written: Mapping[str, str]) -> dict[str, int] | None:
    """Return the choice that a file has for a kernel, if its rule still supports it."""
    for arm in arms_of(task):
        if arm.rule == written[RULE]:
            try:
                return arm.space.from_words(json.loads(written[CHOICE]))
            except InputError:
                return None
    return None


def _schedule(task: Task) -> dict[str, str]:
    """Return the record of a kernel's default."""
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
