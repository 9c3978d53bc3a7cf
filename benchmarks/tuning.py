"""Quality of schedule search: learned, by estimate and at random; warm and cold; and its speed.

    python benchmarks/tuning.py speed                                    # choices scored a second
    python benchmarks/tuning.py search --only matmul --trials 64         # strategies, three seeds
    python benchmarks/tuning.py search --only conv --filter 'C[369]$' --json found.json
    python benchmarks/tuning.py warm --only conv --trials 32            # after others, or not
    python benchmarks/tuning.py gains --trials 256 --json gains.json     # tuned against default
    python benchmarks/tuning.py record --tables tables --trials 400     # measured choices
    python benchmarks/tuning.py replay --tables tables --seeds 20       # searches over these
    python benchmarks/tuning.py reach --tables tables --seeds 10 --trials 1000   # 64 against these

`search` tunes the most expensive kernel of each case, once for each strategy and seed, from
nothing. `warm` tunes each twice: from nothing, and with the trials of all other cases as examples.
The result is the speed-up of each search's best over the default, with all results of a case
measured in interleaved runs at the end; differences below one percent count as ties. `gains` is one
search of each case, with the fraction of the machine's limits reached before and after. Times are
as noisy as the machine: leave it idle meanwhile. `replay` needs no clock: a table has the time of
each choice, measured when it was made.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np
from rich.table import Table

from case import Case
from groups import GROUPS
from suites import all_suites
from tcopt.compiler.options import CompileOptions
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.access import write_output
from tcopt.support.processes.cores import default_threads
from tcopt.tools.benchmarking.machine import machine_facts
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tools.command_line.text_tables import render
from tcopt.tools.tuning.plots import Curve, draw_curves
from tcopt.tuner.arms import arms_of
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import LocalMeasurer, MeasureSettings
from tcopt.tuner.measure.outcomes import OK
from tcopt.tuner.model import ExampleGroup, ModelSettings, Ranker
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.search.proposer import Arm
from tcopt.tuner.session import Session, SessionSettings, SessionState
from tcopt.tuner.task_search import Strategy, TaskSearch
from tcopt.tuner.tasks import Task, tasks_of
from tuning_limits import limits_of, shares_table
from tuning_replay import reach, replay
from tuning_tables import CaseTable, record

PROG = "tuning"

SUITES = ("conv", "depthwise", "matmul", "memory", "windows")

MARKS = (16, 32, 64, 128, 256, 512, 1000)
"""Trials after which the best is shown."""

FEW = 64
"""Trials that should come close to the result of many."""

SCORED = 100_000
"""Choices that `speed` scores."""

EQUAL = 0.99
"""Relative difference below which times are equal."""

NEVER = 1e9
"""Seconds: the number of trials ends these searches."""


@dataclass(frozen=True)
class Run:
    """One search of one kernel.

    Attributes:
        ratios: times of the trials relative to the default's, in order.
        seconds: time at which each trial ended.
        failures: number of failed trials.
        rule, values: the result: a rule and its knob values, the best of the finalists measured
            again.
        confirmed: speed-up of the result over the default, measured again because the minimum of
            noisy times is biased.
        default_ns: time of the default in that measurement.
        before, after: fractions of the machine's limits reached by the default and by the result; 0
            if not requested.
    """

    case: str
    kernel: str
    strategy: str
    seed: int
    warm: bool
    size: int
    ratios: tuple[float, ...]
    seconds: tuple[float, ...]
    failures: int
    rule: str
    values: tuple[tuple[str, int], ...]
    confirmed: float
    default_ns: float = 0.0
    before: float = 0.0
    after: float = 0.0

    def speed(self, trials: int) -> float:
        """Return the speed-up over the default of the best of the first trials."""
        return 1 / min([1.0, *self.ratios[:trials]])


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    args = _parser().parse_args(argv)
    return run_tool(PROG, partial(_run, args))


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(PROG, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("what", choices=("speed", "search", "warm", "gains", "record", "replay", "reach"))
    add("--tables", metavar="FOLDER", help="of measured choices: record writes, replay reads")
    add("--only", nargs="+", metavar="SUITE", help="suites (conv, depthwise, matmul)")
    add("--filter", default="", metavar="REGEX", help="cases whose names match")
    add("--trials", type=int, default=64, help="of each search (64)")
    add("--seeds", type=int, default=3, help="searches of each kind (3)")
    add("--strategies", nargs="+", choices=[s.value for s in Strategy], help="all by default")
    add("--threads", type=int, default=default_threads(), help="that kernels run on (all)")
    add("--target", default="cpu", help="what to compile for (cpu)")
    add("--json", metavar="FILE", help="write all searches")
    add("--chart", metavar="FILE", help="draw the best against trials and seconds")
    return parser


def _run(args: argparse.Namespace) -> int:
    tables = _tables(args) if args.what in ("replay", "reach") else []
    known = {table.case for table in tables}
    cases = [case for case in _cases(args) if not known or case.name in known]
    tasks = dict(_tasks(cases, args.target))
    if not tasks:
        raise InputError("no case has a kernel with choices", hint="--only matmul")
    if args.what == "speed":
        return _score(tasks)
    if args.what == "replay":
        fitting = [table for table in tables if table.case in tasks]
        print(replay(tasks, fitting, _strategies(args), args.trials, args.seeds))
        return 0
    if args.what == "reach":
        fitting = [table for table in tables if table.case in tasks]
        text, enough = reach(tasks, fitting, FEW, args.trials, args.seeds)
        print(text)
        return 0 if enough else 1
    runs: list[Run] = []
    with LocalMeasurer(MeasureSettings(threads=args.threads)) as measurer:
        if args.what == "record":
            return _record(args, tasks, measurer)
        if args.what == "search":
            runs = _search(args, tasks, measurer)
        elif args.what == "gains":
            runs = _gains(args, tasks, measurer)
        else:
            runs = _warm(args, tasks, measurer)
    print(_table(runs))
    if args.what == "gains":
        print(shares_table(runs))
    print(_summary(runs))
    if args.json:
        facts = {"machine": machine_facts(), "threads": args.threads}
        text = json.dumps(facts | {"runs": [asdict(run) for run in runs]}, indent=1)
        write_output(args.json, text)
    if args.chart:
        curves: dict[str, list[Curve]] = {}
        for run in runs:
            label = "warm" if run.warm else run.strategy
            curves.setdefault(run.case, []).append(Curve(label, run.ratios, run.seconds))
        draw_curves(curves, Path(args.chart))
    return 0


def _cases(args: argparse.Namespace) -> list[Case]:
    wanted = args.only or list(SUITES)
    suites = all_suites()
    if unknown := sorted(set(wanted) - set(suites)):
        raise InputError(f"there is no suite '{unknown[0]}'", hint=f"there are {', '.join(suites)}")
    cases = [case for name in wanted for case in suites[name]]
    return [case for case in cases if re.search(args.filter, case.name)]


def _tasks(cases: Iterable[Case], target: str) -> Iterable[tuple[str, Task]]:
    """Yield the kernel of each case that has most work, if it has choices."""
    for case in cases:
        known = ("accuracy", "precision", "shapes", "dims")
        options = {name: case.options[name] for name in known if name in case.options}
        task = max(
            tasks_of(case.build(), CompileOptions(target=target, **options)),
            key=lambda t: t.work,
            default=None,
        )
        if task is not None and sum(arm.space.size for arm in arms_of(task)) > 1:
            yield case.name, replace(task, ns=1.0)
        else:
            print(f"{case.name}: nothing to choose", file=sys.stderr)


# Measure how fast choices are scored.


def _score(tasks: dict[str, Task]) -> int:
    table = Table(box=None)
    for title in ("case", "rule", "choices", "features us", "model us", "scored a second"):
        table.add_column(title)
    for name, task in tasks.items():
        arm = max(arms_of(task), key=lambda each: each.space.size)
        features_s, model_s = _seconds(arm)
        table.add_row(
            name,
            arm.rule,
            f"{arm.space.size:,}",
            f"{features_s / SCORED * 1e6:.2f}",
            f"{model_s / SCORED * 1e6:.2f}",
            f"{SCORED / (features_s + model_s):,.0f}",
        )
    print(render(table))
    return 0


def _seconds(arm: Arm) -> tuple[float, float]:
    """Time features and predictions of `SCORED` choices on one thread, the minimum of three."""
    rng = np.random.default_rng(0)
    points = arm.space.draw(SCORED, rng)
    examples = arm.features(points[:4096])
    speeds = np.exp(0.3 * rng.standard_normal(len(examples)))
    ranker = Ranker(ModelSettings(threads=1))
    ranker.learn([ExampleGroup("any", "any", examples, speeds)], "any", len(examples))
    least = [float("inf"), float("inf")]
    for _ in range(3):
        start = time.perf_counter()
        features = arm.features(points)
        between = time.perf_counter()
        ranker.predict(features)
        end = time.perf_counter()
        least = [min(least[0], between - start), min(least[1], end - between)]
    return least[0], least[1]


# Running the searches.


def _strategies(args: argparse.Namespace) -> list[Strategy]:
    return [Strategy(s) for s in args.strategies] if args.strategies else list(Strategy)


def _search(args: argparse.Namespace, tasks: dict[str, Task], measurer: LocalMeasurer) -> list[Run]:
    found: list[Run] = []
    for name, task in tasks.items():
        own: list[Run] = []
        for seed in range(args.seeds):
            for strategy in _strategies(args):
                run, _ = _one(name, task, strategy, seed, args.trials, measurer, ())
                own.append(_told(run))
        found += _together(task, own, measurer)
    return found


def _gains(args: argparse.Namespace, tasks: dict[str, Task], measurer: LocalMeasurer) -> list[Run]:
    """Search each case once, with a model that knows the previous ones."""
    found: list[Run] = []
    taught: list[ExampleGroup] = []
    for name, task in tasks.items():
        run, groups = _one(name, task, Strategy.MODEL, 0, args.trials, measurer, taught)
        taught += groups
        (run,) = _together(task, [replace(run, warm=False)], measurer)
        found.append(_told(replace(run, **limits_of(task, run, args.threads))))
    return found


def _together(task: Task, runs: Sequence[Run], measurer: LocalMeasurer) -> list[Run]:
    """Searches of one kernel; all results are measured again in interleaved runs."""
    rules = [(run.rule, run.values) for run in runs]
    wanted = {f"{rule} {values}": Candidate(task, rule, dict(values)) for rule, values in rules}
    outcomes = dict(zip(wanted, measurer.measure(list(wanted.values())), strict=True))
    found: list[Run] = []
    for run in runs:
        outcome = outcomes[f"{run.rule} {run.values}"]
        confirmed = max(1 / outcome.ratio, 1.0) if outcome.status == OK else 1.0
        ns = median(outcome.default_ns) if outcome.default_ns else 0.0
        found.append(replace(run, confirmed=confirmed, default_ns=ns))
    return found


def _record(args: argparse.Namespace, tasks: dict[str, Task], measurer: LocalMeasurer) -> int:
    folder = _folder(args)
    folder.mkdir(parents=True, exist_ok=True)
    for name, task in tasks.items():
        table = record(name, task, args.trials, measurer)
        table.write(folder / f"{name}.json.gz")
        print(f"{name}: {len(table.rows)} choices", file=sys.stderr, flush=True)
    return 0


def _folder(args: argparse.Namespace) -> Path:
    if not args.tables:
        raise InputError(f"{args.what} needs a folder of tables", hint="--tables FOLDER")
    return Path(args.tables)


def _tables(args: argparse.Namespace) -> list[CaseTable]:
    found = [CaseTable.read(path) for path in sorted(_folder(args).glob("*.json.gz"))]
    if not found:
        raise InputError(f"'{args.tables}' has no tables", hint="make some: tuning.py record")
    return found


def _warm(args: argparse.Namespace, tasks: dict[str, Task], measurer: LocalMeasurer) -> list[Run]:
    runs: dict[str, list[Run]] = {name: [] for name in tasks}
    taught: dict[str, list[ExampleGroup]] = {name: [] for name in tasks}
    for is_warm in (False, True):
        for name, task in tasks.items():
            others = [g for other, groups in taught.items() if other != name for g in groups]
            for seed in range(args.seeds):
                given = others if is_warm else ()
                run, groups = _one(name, task, Strategy.MODEL, seed, args.trials, measurer, given)
                runs[name].append(_told(run))
                if not is_warm:
                    taught[name] += groups
    return [r for name, task in tasks.items() for r in _together(task, runs[name], measurer)]


def _one(
    name: str,
    task: Task,
    strategy: Strategy,
    seed: int,
    trials: int,
    measurer: LocalMeasurer,
    others: Sequence[ExampleGroup],
) -> tuple[Run, list[ExampleGroup]]:
    """Run one search; return it and its examples for others."""
    search = TaskSearch(task.key, arms_of(task), Progress(1.0, 0), strategy, seed=seed)
    settings = SessionSettings(seed=seed, worth=-1.0, model=ModelSettings(seed=seed))
    session = Session([(task, search)], measurer, others=others, settings=settings)
    seconds: list[float] = []

    def note(state: SessionState) -> None:
        seconds.extend([state.seconds] * (state.trials - len(seconds)))

    session.run(NEVER, trials, note)
    again = session.confirm()
    best = again[0][1] if again else search.default or search.best
    usual = search.proposer.default()
    rule, values = (best.rule, best.choice) if best is not None else (usual.rule, usual.choice)
    ratios = tuple(trial.part for trial in search.trials)
    failures = sum(not trial.ran for trial in search.trials)
    run = Run(
        name,
        task.name,
        strategy.value,
        seed,
        bool(others),
        search.proposer.size,
        ratios,
        tuple(seconds),
        failures,
        rule,
        tuple(values.items()),
        1 / again[0][1].ratio if again else 1.0,
    )
    return run, search.groups()


def _told(run: Run) -> Run:
    kind = "warm" if run.warm else run.strategy
    best = f"{run.speed(len(run.ratios)):.3f}x, confirmed {run.confirmed:.3f}x"
    line = f"{run.case} {kind} seed {run.seed}: {best}, {len(run.ratios)} trials, "
    line += f"{run.rule} {dict(run.values)}"
    print(line, file=sys.stderr, flush=True)
    return run


def _kinds(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.case, "warm" if run.warm else run.strategy), []).append(run)
    return found


def _table(runs: Sequence[Run]) -> str:
    most = max(len(run.ratios) for run in runs)
    marks = [mark for mark in MARKS if mark < most] + [most]
    table = Table(box=None)
    for title in (
        "case",
        "choices",
        "search",
        *(f"after {mark}" for mark in marks),
        "again",
        "failed",
    ):
        table.add_column(title, justify="left" if title in ("case", "search") else "right")
    for (case, kind), own in _kinds(runs).items():
        speeds = [f"{median(run.speed(mark) for run in own):.3f}" for mark in marks]
        failed = sum(run.failures for run in own)
        again = f"{median(run.confirmed for run in own):.3f}"
        table.add_row(case, f"{own[0].size:,}", kind, *speeds, again, str(failed))
    return render(table)


def _summary(runs: Sequence[Run]) -> str:
    """Print the winners, and the gains of groups."""
    ends = {key: median(run.confirmed for run in own) for key, own in _kinds(runs).items()}
    lines: list[str] = []
    for first, second in (("model", "random"), ("model", "estimate"), ("warm", "model")):
        both = [case for case, kind in ends if kind == first and (case, second) in ends]
        if both:
            won = sum(ends[case, first] >= EQUAL * ends[case, second] for case in both)
            ratio = geometric_mean(ends[case, first] / ends[case, second] for case in both)
            lines.append(
                f"{first} at least as good as {second} in {won} of {len(both)} kernels, "
                f"{ratio:.3f}x in the geometric mean"
            )
    for group in GROUPS:
        own = [ends[case, "model"] for case in group.members if (case, "model") in ends]
        if own:
            lines.append(f"{group.title}: {geometric_mean(own):.3f}x as fast as the default")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TcoptError as error:
        sys.exit(str(error))
