"""How good estimates of tiles for GPUs are: the tile with the lowest one against the fastest.

    python benchmarks/gpu_tiles.py                      # of tiles that were measured before
    python benchmarks/gpu_tiles.py --measure --minutes 3 --output tiles.jsonl

The second form needs a CUDA device, and measures tiles with low estimates and random ones. The
first needs none, and shows what a change of a cost model would choose among the measured tiles.
Those of an H200 are in benchmarks/results/gpu_tiles.jsonl. Times are medians of three rounds of
runs, which are repeated in a CUDA graph.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from onnx import ModelProto

sys.path.insert(0, str(Path(__file__).parent))

from gpus.cases import batched_layer, dense, product
from gpus.items import Item, feeds_of
from gpus.prepare import compiled, describe
from gpus.rows import Rows, read_rows
from gpus.variants import Look, watching
from md_tables import markdown
from saved import FOLDER
from suites import conv
from tcopt.runtime.device.cuda import cuda_device
from tcopt.schedules.spaces.space import Choice, Space
from tcopt.tools.benchmarking.report import geometric_mean
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tuner.search.moves import draw_valid

PROG = "gpu_tiles.py"
TILES = FOLDER / "gpu_tiles.jsonl"
TARGET = "cuda:sm_90"
LOWEST, RANDOM, DRAWN = 20, 16, 3000
"""Measured tiles of a workload: those with the lowest estimates, and others, of as many drawn."""
ROUND_S, ROUNDS = 0.004, 3
RULES = {"f32": "gpu-shared-tile", "f16": "gpu-tensor-core-tile"}


def workloads() -> Iterator[Item]:
    """Products and convolutions in both types, without Winograd, so that all of them is tiles."""
    cases: dict[str, Callable[[], ModelProto]] = {
        f"square_{n}": partial(product, [n, n], [n, n]) for n in (1024, 2048, 4096)
    }
    for sizes in (
        *((128, 768, 768), (128, 768, 3072), (128, 3072, 768)),
        *((4096, 768, 768), (4096, 768, 3072), (4096, 3072, 768)),
    ):
        cases["dense_{}x{}x{}".format(*sizes)] = partial(dense, *sizes)
    cases["qk_2048"] = partial(product, [12, 2048, 64], [12, 64, 2048])
    cases["pv_2048"] = partial(product, [12, 2048, 2048], [12, 2048, 64])
    cases |= {case.name: case.build for case in conv.CASES}
    cases["b56"] = partial(batched_layer, 32, 56, 64, 64, 3, 1)
    cases["b14"] = partial(batched_layer, 32, 14, 256, 256, 3, 1)
    cases["b28s"] = partial(batched_layer, 32, 56, 64, 128, 3, 2)
    for dtype in RULES:
        for name, build in cases.items():
            variant = "winograd" if dtype == "f32" else ""
            yield Item("tiles", name, build, "", dtype, variant=variant)


def compile_watched(item: Item, look: Look) -> Any:
    """Compile a workload; `look` gets the space of its rule, and may return a choice."""
    with watching(look, RULES[item.dtype]):
        return compiled(item.model(), item, TARGET, 0)


def estimates(item: Item, choices: Sequence[Choice]) -> tuple[list[float | None], Choice | None]:
    """Estimated microseconds of choices, None where they are not valid, and the default."""
    found: list[float | None] = [None] * len(choices)
    usual: list[Choice] = []

    def look(space: Space) -> None:
        if usual or (choices and {knob.name for knob in space.knobs} != set(choices[0])):
            return
        usual.append(space.default())
        megahertz = space.facts.megahertz  # type: ignore[attr-defined]
        for number, choice in enumerate(choices):
            if space.is_valid(choice):
                points = space.at(space.point(choice)[None])
                found[number] = float(np.ravel(space.estimate(points))[0]) / megahertz

    compile_watched(item, look)
    return found, usual[0] if usual else None


def report(path: Path) -> str:
    """Compare the current estimates with measured tiles."""
    rows = read_rows(path)
    table: list[list[str]] = []
    lost: dict[str, list[float]] = {}
    for item in workloads():
        own = [row for row in rows.values() if row.get("workload") == _name(item) and "us" in row]
        expected, usual = estimates(item, [row["choice"] for row in own])
        both = zip(expected, own, strict=True)
        known = [(e, row["us"], row["choice"]) for e, row in both if e is not None]
        if not known:
            continue
        lowest = min(known, key=lambda each: each[0])
        fastest = min(known, key=lambda each: each[1])
        default = [us for _, us, choice in known if choice == usual]
        ratio = lowest[1] / fastest[1]
        lost.setdefault(item.dtype, []).append(ratio)
        times = f"{fastest[1]:.1f}", f"{fastest[0]:.1f}", f"{lowest[1]:.1f}", f"{lowest[0]:.1f}"
        own_time = f"{default[0]:.1f}" if default else ""
        table.append([item.name, item.dtype, str(len(known)), *times, f"{ratio:.2f}", own_time])
    head = ["workload", "type", "tiles", "fastest us", "estimated", "lowest estimate us"]
    head += ["estimated", "ratio", "default us"]
    means = (f"{dtype} {geometric_mean(found):.2f}" for dtype, found in lost.items())
    return f"{markdown(head, table)}\n\nGeometric means of the ratios: {', '.join(means)}.\n"


def _name(item: Item) -> str:
    return f"{item.name}/{item.dtype}"


def _candidates(item: Item) -> list[Choice]:
    found: list[Choice] = []

    def look(space: Space) -> None:
        if found:
            return
        rng = np.random.default_rng(0)
        points = np.unique(draw_valid(space, DRAWN, rng), axis=0)
        order = np.argsort(np.ravel(space.estimate(space.at(points))), kind="stable")
        others = rng.permutation(order[LOWEST:])[:RANDOM]
        chosen = [space.choice(points[place]) for place in (*order[:LOWEST], *others)]
        found.extend([space.default(), *chosen])

    compile_watched(item, look)
    return found


def _build(job: tuple[Item, Choice]) -> Any:
    item, choice = job
    try:
        return compile_watched(item, lambda space: choice if space.is_valid(choice) else None)
    except Exception as error:
        return describe(error)


def measure(path: Path, until: float, processes: int) -> None:
    """Measure tiles of all workloads, one of each after the other."""
    rows = Rows(path, resume=True)
    rows.check_machine({"device": cuda_device().name, "target": TARGET})
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        items = list(workloads())
        every = list(pool.map(_candidates, items))
        longest = max(map(len, every))
        jobs = [
            (item, choices[number])
            for number in range(longest)
            for item, choices in zip(items, every, strict=True)
            if number < len(choices)
        ]
        for (item, choice), program in zip(jobs, pool.map(_build, jobs), strict=True):
            if time.time() > until:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            facts = {"workload": _name(item), "rule": RULES[item.dtype], "choice": choice}
            key = f"{_name(item)} {json.dumps(choice, sort_keys=True)}"
            rows.add(key, {**facts, **_timed(item, program)})


def _timed(item: Item, program: Any) -> dict[str, Any]:
    if isinstance(program, str):
        return {"error": program}
    try:
        arrays = feeds_of(item.build(), item.dtype).values()
        each = zip(arrays, program.inputs, strict=True)
        session = program.session()
        session.run([array.astype(spec.dtype) for array, spec in each])
        runs = max(int(ROUND_S / max(session.seconds(2), 1e-7)), 1)
        session.seconds(runs)
        times = [session.seconds(runs) * 1e6 for _ in range(ROUNDS)]
        return {"us": median(times), "launches": len(program.steps)}
    except Exception as error:
        return {"error": describe(error)}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = ArgumentParser(PROG, (__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--measure", action="store_true", help="measure on the CUDA device before the report")
    add("--output", type=Path, default=TILES, help="the rows (benchmarks/results/gpu_tiles.jsonl)")
    add("--minutes", type=float, default=5.0, help="time limit of measuring (5)")
    add("--processes", type=int, default=4, help="processes that compile (4)")
    return run_tool(PROG, partial(_run, parser.parse_args(argv)))


def _run(args: argparse.Namespace) -> int:
    if args.measure:
        measure(args.output, time.time() + 60 * args.minutes, args.processes)
    print(report(args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
