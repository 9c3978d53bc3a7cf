"""Searches replayed on tables of measured choices: which strategy finds more, and how soon.

The result is the true time of the choice that is best by the noisy times shown to a search: a
strategy that picks choices that only seemed fast is penalised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, median

import numpy as np
from rich.table import Table

from tcopt.tools.command_line.text_tables import render
from tcopt.tuner.model import ExampleGroup, ModelSettings
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.search.proposer import Arm
from tcopt.tuner.session import Session, SessionSettings
from tcopt.tuner.task_search import Strategy, TaskSearch
from tcopt.tuner.tasks import Task
from tuning_tables import CaseTable, TableMeasurer, table_arms

MARKS = (8, 16, 32, 64)
"""Trials after which the best is shown."""

NOISE = 0.01
"""Noise of a time measured in interleaved runs."""

ENOUGH = 0.95
"""Fraction of the speed after many trials that few should reach."""

WARM = "warm"
"""A search by a model that has the trials of all other tables."""

_NEVER = 1e9


@dataclass(frozen=True)
class Replayed:
    """A kernel with its table.

    Attributes:
        best: minimum time, relative to the default's.
    """

    task: Task
    table: CaseTable
    arms: Sequence[Arm]

    @property
    def best(self) -> float:
        return min([1.0, *(row.ratio for row in self.table.rows if row.ratio is not None)])


def replay(
    tasks: Mapping[str, Task],
    tables: Sequence[CaseTable],
    strategies: Sequence[Strategy],
    trials: int,
    seeds: int,
) -> str:
    """Return a table of the speed found after some trials: the median of the seeds."""
    cases = [Replayed(tasks[t.case], t, table_arms(tasks[t.case], t)) for t in tables]
    taught = {c.table.case: _search(c, Strategy.MODEL, seeds, trials, ())[1] for c in cases}
    marks = [mark for mark in MARKS if mark < trials] + [trials]
    printed = Table(box=None)
    for title in ("case", "best", "search", *(f"after {mark}" for mark in marks)):
        printed.add_column(title, justify="left" if title in ("case", "search") else "right")
    ends: dict[str, dict[str, float]] = {}
    parts: dict[str, list[float]] = {}
    for case in cases:
        name = case.table.case
        others = [g for other, groups in taught.items() if other != name for g in groups]
        for kind in [*(s.value for s in strategies), *([WARM] if len(cases) > 1 else [])]:
            strategy = Strategy.MODEL if kind == WARM else Strategy(kind)
            given = others if kind == WARM else ()
            runs = [_search(case, strategy, seed, trials, given)[0] for seed in range(seeds)]
            middle = [median(run[mark - 1] for run in runs) for mark in marks]
            ends.setdefault(kind, {})[name] = middle[-1]
            parts.setdefault(kind, []).append(fmean(_part(each, case.best) for each in middle))
            speeds = [f"{1 / each:.3f}" for each in middle]
            printed.add_row(name, f"{1 / case.best:.3f}", kind, *speeds)
    return "\n".join([render(printed), *_verdicts(ends, parts)])


def reach(
    tasks: Mapping[str, Task], tables: Sequence[CaseTable], few: int, many: int, seeds: int
) -> tuple[str, bool]:
    """Print the fraction of the speed after many trials that a few reach, and whether it is
    `ENOUGH` in each kernel: the median of the seeds, of learned searches."""
    printed = Table(box=None)
    for title in ("case", "choices", f"after {few}", f"after {many}", "of it"):
        printed.add_column(title, justify="left" if title == "case" else "right")
    enough = True
    for table in tables:
        case = Replayed(tasks[table.case], table, table_arms(tasks[table.case], table))
        runs = [_search(case, Strategy.MODEL, seed, many, ())[0] for seed in range(seeds)]
        first, last = (median(run[mark - 1] for run in runs) for mark in (few, many))
        enough = enough and last / first >= ENOUGH
        row = table.case, len(table.rows), f"{1 / first:.3f}x", f"{1 / last:.3f}x"
        printed.add_row(*map(str, row), f"{100 * last / first:.1f} %")
    text = f"{few} trials reach {100 * ENOUGH:.0f} % of the speed of {many} in each kernel: "
    return f"{render(printed)}\n{text}{'yes' if enough else 'no'}", enough


def _part(ratio: float, best: float) -> float:
    """Return the fraction of the best's gain that is reached, by logarithms."""
    return log(ratio) / log(best) if best < 1 else 1.0


def _verdicts(
    ends: Mapping[str, Mapping[str, float]], parts: Mapping[str, Sequence[float]]
) -> list[str]:
    lines: list[str] = []
    pairs = (("model", "random"), ("model", "estimate"), (WARM, "model"))
    for first, second in pairs:
        if first in ends and second in ends:
            both = [(ends[first][case], ends[second][case]) for case in ends[first]]
            won = sum(one <= other for one, other in both)
            lines.append(f"{first} at least as good as {second} in {won} of {len(both)} kernels")
    for kind, reached in parts.items():
        lines.append(f"{kind}: {100 * fmean(reached):.0f} % of the best's gain, over all marks")
    return lines


def _search(
    case: Replayed, strategy: Strategy, seed: int, trials: int, others: Sequence[ExampleGroup]
) -> tuple[list[float], list[ExampleGroup]]:
    """Return the true time of the best after each trial, and the search's examples for others."""
    measurer = TableMeasurer(case.table, NOISE, seed)
    task = replace(case.task, ns=1.0)
    search = TaskSearch(task.key, case.arms, Progress(1.0, 0), strategy, seed=seed)
    settings = SessionSettings(seed=seed, worth=-1.0, model=ModelSettings(seed=seed))
    session = Session([(task, search)], measurer, others=others, settings=settings)
    session.run(_NEVER, trials)
    told = np.asarray([trial.part for trial in search.trials] or [1.0])
    true = [measurer.true_ratio(trial.rule, trial.choice) for trial in search.trials] or [1.0]
    found: list[float] = []
    for number in range(trials):
        best = int(np.argmin(told[: number + 1]))
        found.append(min(true[best], 1.0))
    return found, search.groups()
