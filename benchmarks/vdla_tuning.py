"""ResNet-18's convolutions on the accelerator, searched by the tuner.

    python benchmarks/vdla_tuning.py --machine vdla --trials 64 [--layers C2,C8]

For each layer of the TVM paper's table 2 (C2 to C12): simulated cycles of the default schedule and
of the best of the given number of choices that `tcopt-tune` tries, and the knobs in which the best
differs. Programs are those of `vdla.py`, and cycles are exact, so the same seed finds the same
result.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from saved import save
from table2 import LAYERS, Layer
from tcopt.backends.vdla.machines import named_machine
from tcopt.compiler import Phase, lower
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.support.registries.target_registry import target_named
from tcopt.tuner.arms import arms_of
from tcopt.tuner.measure.measurer import MeasureSettings
from tcopt.tuner.measure.simulated import SimulatedMeasurer, simulated_machine, with_simulated_times
from tcopt.tuner.model import ModelSettings
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.session import Session, SessionSettings
from tcopt.tuner.task_search import Strategy, TaskSearch
from tcopt.tuner.tasks import Task, tasks_in
from vdla import graph

_TO_TE = "lower-graph-to-te,te-inline,split-axes,merge-axes"
_FOREVER = 1e9


def task_of(layer: Layer, facts: VdlaTargetAttr, *, bias: bool) -> Task:
    """Return a layer as a tuner task."""
    module = graph(layer, facts, bias=bias)
    lower(module, [Phase("te", _TO_TE)])
    (task,) = tasks_in(module, target_named(facts.kind).placed_phases())
    return task


def search(
    task: Task, measurer: SimulatedMeasurer, trials: int, strategy: str, seed: int = 0
) -> TaskSearch:
    """The trials of a task."""
    (task,) = with_simulated_times([task], measurer)
    arms, machine, own = arms_of(task), str(simulated_machine(task)), Strategy(strategy)
    found = TaskSearch(task.key, arms, Progress(task.weight, 0), own, machine, seed=seed)
    settings = SessionSettings(seed=seed, worth=-1.0, model=ModelSettings(seed=seed))
    session = Session([(task, found)], measurer, settings=settings)
    session.run(_FOREVER, trials)
    return found


def differences(default: Mapping[str, int], best: Mapping[str, int]) -> str:
    """Return the knobs that differ."""
    changed = [name for name in best if best[name] != default.get(name)]
    return ", ".join(f"{name} {default.get(name)} -> {best[name]}" for name in changed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # pyright: ignore
    parser.add_argument("--machine", default="vdla")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--layers", default=",".join(layer.name for layer in LAYERS))
    strategies = [each.value for each in Strategy]
    parser.add_argument("--strategies", nargs="+", choices=strategies, default=strategies[:1])
    parser.add_argument("--seeds", type=int, default=1, help="searches of each strategy (1)")
    parser.add_argument("--json", type=Path, help="write the trials of all searches")
    parser.add_argument("--no-bias", action="store_true")
    parser.add_argument("--builders", type=int, default=2)
    args = parser.parse_args()
    facts, wanted = named_machine(args.machine), args.layers.split(",")
    print("| layer | strategy | default | best | faster | chosen otherwise |")
    print("|---|---|---|---|---|---|")
    rows: list[dict[str, Any]] = []
    layers = [each for each in LAYERS if each.name in wanted]
    with SimulatedMeasurer(MeasureSettings(builders=args.builders)) as measurer:
        for layer, strategy, seed in product(layers, args.strategies, range(args.seeds)):
            task = task_of(layer, facts, bias=not args.no_bias)
            found = search(task, measurer, args.trials, strategy, seed)
            best, (arm, *_) = found.best, found.arms
            assert best is not None
            cycles = round(best.ns * facts.megahertz / 1e3)
            default = round(cycles / best.ratio)
            parts = (layer.name, strategy, f"{default:,}", f"{cycles:,}", f"{1 / best.ratio:.3f}")
            changed = differences(arm.space.default(), best.choice)
            print(f"| {' | '.join(parts)} | {changed} |", flush=True)
            rows.append(
                {
                    "layer": layer.name,
                    "strategy": strategy,
                    "seed": seed,
                    "size": arm.space.size,
                    "default": default,
                    "best": cycles,
                    "ratios": [trial.part for trial in found.trials],
                }
            )
            if args.json:
                save(args.json, f"python benchmarks/vdla_tuning.py --machine {args.machine}", rows)


if __name__ == "__main__":
    main()
