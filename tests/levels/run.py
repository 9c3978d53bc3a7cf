"""Compare CPUs that this machine can execute: `make levels`.

Each model is compiled for each CPU and run on the same read-only inputs, with exact-size buffers
between guard pages. Integers must be equal, floats close. Each model has its own process, so that
an out-of-bounds write becomes a line of the report.

    python tests/levels/run.py                       # everything
    python tests/levels/run.py --only integers --count 100
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(1, str(Path(__file__).parents[2] / "benchmarks"))

import numpy as np
from onnx import ModelProto
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

import tcopt
from levels.compare import findings, levels
from levels.integer_models import feeds_of, integer_model
from tcopt.support.errors import TcoptError, UnsupportedError

Build = Callable[[], tuple[ModelProto, dict[str, np.ndarray]]]
SECONDS = 300
"""Time limit of a model on all CPUs."""


def _integers(seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
    model = integer_model(seed)
    return model, feeds_of(model, seed)


def _integer_models(count: int) -> Iterator[tuple[str, Build, bool]]:
    for seed in range(count):
        yield f"integers {seed}", partial(_integers, seed), True


def _of_case(case: TestCase) -> tuple[ModelProto, dict[str, np.ndarray]]:
    inputs, _ = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    if not all(isinstance(array, np.ndarray) for array in inputs):
        raise UnsupportedError("sequences")
    return case.model, dict(zip(names, inputs, strict=True))


def _operators(count: int) -> Iterator[tuple[str, Build, bool]]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = [case for case in load_model_tests(kind="node") if case.data_sets]
    cases.sort(key=lambda case: case.name)
    for case in cases[:: max(1, len(cases) // count)]:
        yield case.name, partial(_of_case, case), False


def _benchmark(build: Callable[[], ModelProto]) -> tuple[ModelProto, dict[str, np.ndarray]]:
    model = build()
    return model, feeds_of(model, 0)


def _benchmarks(count: int) -> Iterator[tuple[str, Build, bool]]:
    from suites import all_suites

    for suite, cases in all_suites().items():
        for case in cases if suite != "models" else ():
            yield case.name, partial(_benchmark, case.build), False


SOURCES = {"integers": _integer_models, "operators": _operators, "benchmarks": _benchmarks}


def _child(build: Build, cpus: list[str], exact: bool, answer: Connection) -> None:
    try:
        model, feeds = build()
        found = findings(model, feeds, cpus, exact)
    except UnsupportedError:
        found = None
    except TcoptError as error:
        found = [str(error)]
    answer.send(found)


def _check(name: str, build: Build, exact: bool, cpus: list[str]) -> list[str] | None:
    """Return what is wrong with a model; None if unknown."""
    ours, theirs = multiprocessing.Pipe(False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_child, args=(build, cpus, exact, theirs))
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(SECONDS) else [f"took more than {SECONDS} s"]
    except EOFError:
        process.join()
        found = [f"ended by signal {-(process.exitcode or 0)}"]
    process.kill()
    process.join()
    return found


def main() -> int:
    """Entry point; returns 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Compare CPUs that this machine can stand for.")
    add = parser.add_argument
    add("--only", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    add("--count", type=int, default=600, help="how many integer models and operators (600)")
    add("--jobs", type=int, default=2)
    add("--list", action="store_true", help="print the CPUs and compare nothing")
    args = parser.parse_args()
    cpus = levels()
    if args.list:
        print(*cpus)
        return 0
    print(f"comparing {', '.join(cpus)}", flush=True)
    # Import what a compile needs before the processes of models are forked.
    tcopt.compile(integer_model(0), cache=False)
    wrong = 0
    for source in args.only:
        start = time.monotonic()
        entries = list(SOURCES[source](args.count))
        with ThreadPoolExecutor(args.jobs) as pool:
            outcomes = list(pool.map(lambda entry: _check(*entry, cpus), entries))
        compared = 0
        for (name, _, _), found in zip(entries, outcomes, strict=True):
            compared += found is not None
            wrong += bool(found)
            for line in found or ():
                print(f"  {name}: {line}", flush=True)
        print(
            f"{source}: {compared} of {len(entries)} compared on {len(cpus)} CPUs, "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )
    print(f"{wrong} with findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
