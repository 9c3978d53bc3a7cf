"""Runs all of ONNX's backend suite: `make conformance`.

A case that passes is added to passing.txt; one that is listed there and fails makes the run
fail. What passes is written to docs/conformance.md, operator by operator.

`--target opencl` and `--target cuda:sm_80` run the cases of passing.txt on a device: OpenCL's, and
for CUDA a driver without a device that executes the PTX (`make conformance-devices`). The run fails
if a case does, or if one passes that `deviations.ON_DEVICES` lists.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx
from rich.progress import Progress

from conformance.cases import CPU, PASSING, all_cases, passing_cases, run_case, set_home
from conformance.deviations import DEVIATIONS, ON_DEVICES, works_on_devices
from conformance.groups import COMMON, GROUPS, groups

DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"

Outcomes = Mapping[str, str | None]

_HEAD = """# Conformance

ONNX {version} ships a suite for backends, {total} cases for the CPU. Every one is compiled and run,
its outputs compared with the suite's: shapes and types exactly, numbers within a relative 1e-3.
Of random numbers, which differ from one implementation to another, shapes and types are compared,
and elements that neither side drops. **{passed} pass.** `make conformance` runs them all and writes
this page; `make test` runs a part of those that pass.

{deviating} fail on purpose:

{deviations}

```python
import numpy as np
import onnx.parser

from tcopt.compiler.onnx_backend import Backend

model = onnx.parser.parse_model(\"\"\"<ir_version: 10, opset_import: ["" : 21]>
layer (float[2, 3] x) => (float[2, 3] y) {{ y = Relu(x) }}\"\"\")
rep = Backend.prepare(model)
(y,) = rep.run([np.ones((2, 3), np.float32)])
```

Of those, by what they are about; the light networks and those converted from PyTorch count as
common inference, and so do all operators that no other line names:

{groups}

## Devices

`make conformance-devices` runs the cases that pass on the CPU on an OpenCL device (PoCL), and as
executed PTX for sm_80 ([ptx.md](ptx.md)). It fails if a case fails that is not listed here, or if a
listed case passes. The listed cases need the host:

{on_cpu}

## Operators

Cases of single operators, and how many of them pass. A case of an operator that ONNX defines by
others is there twice: as it is, and expanded.

| operator | pass | of |
|---|---|---|
"""


_SECONDS = 300
"""The longest that a case may take on the CPU."""

_DEVICE_SECONDS = 3600
"""The same on a device: VGG-19 has 20 billion multiply-adds, which an interpreter executes."""

_CHUNK = 50
"""Cases that one process runs, one after the other."""


def _run_chunk(names: Sequence[str], target: str, results: Connection) -> None:
    for name in names:
        results.send((name, run_case(name, target)))


def _outcomes(names: Sequence[str], target: str = CPU) -> Iterator[tuple[str, str | None]]:
    """What went wrong with cases, each process running some; a case may end its process."""
    left, limit = list(names), _SECONDS if target == CPU else _DEVICE_SECONDS
    while left:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=_run_chunk, args=(left[:_CHUNK], target, sender)
        )
        process.start()
        sender.close()
        for name in left[:_CHUNK]:
            try:
                outcome = receiver.recv() if receiver.poll(limit) else (name, "takes too long")
            except EOFError:
                outcome = (name, "ends its process")
            yield outcome
            left.remove(name)
            if outcome[1] in ("takes too long", "ends its process"):
                break
        process.kill()
        process.join()


def run_all(names: Sequence[str], jobs: int, target: str = CPU) -> Outcomes:
    """What went wrong with each case; None for those that pass."""
    shares = [names[job::jobs] for job in range(jobs)]
    outcomes: dict[str, str | None] = {}
    with ThreadPoolExecutor(jobs) as pool, Progress() as progress:
        task = progress.add_task("conformance", total=len(names))

        def share(own: Sequence[str]) -> None:
            for name, problem in _outcomes(own, target):
                outcomes[name] = problem
                progress.advance(task)

        list(pool.map(share, shares))
    return outcomes


def operator_of(name: str, operators: Mapping[str, str]) -> str:
    """The operator that a case is named after: `test_relu_expanded` is of Relu."""
    plain = name.removeprefix("test_").replace("_", "").lower()
    found = [own for own in operators if plain.startswith(own)]
    return operators[max(found, key=len)] if found else "others"


def count_groups(outcomes: Outcomes) -> dict[str, tuple[int, int]]:
    """How many cases of each group pass, of how many."""
    found: dict[str, list[bool]] = {group: [] for group in GROUPS}
    for name, problem in outcomes.items():
        found[groups().get(name, COMMON)].append(problem is None)
    return {group: (sum(passed), len(passed)) for group, passed in found.items() if passed}


def _cpu_rows(names: Sequence[str]) -> Iterator[str]:
    for pattern, reason in ON_DEVICES.items():
        count = sum(fnmatch(name, pattern) for name in names)
        yield f"- `{pattern}` ({count}): {reason}."


def write_document(outcomes: Outcomes) -> None:
    """Write docs/conformance.md."""
    rows = (
        f"| {group} | {good} | {all_} |" for group, (good, all_) in count_groups(outcomes).items()
    )
    table = "\n".join(["| about | pass | of |", "|---|---|---|", *rows])
    operators = {s.name.lower(): s.name for s in onnx.defs.get_all_schemas() if not s.domain}
    counts: dict[str, list[int]] = {}
    for name, problem in outcomes.items():
        category = all_cases()[name][0]
        if "Node" in category:
            entry = counts.setdefault(operator_of(name, operators), [0, 0])
            entry[0] += problem is None
            entry[1] += 1
    text = _HEAD.format(
        version=onnx.__version__,
        total=len(outcomes),
        passed=sum(problem is None for problem in outcomes.values()),
        groups=table,
        deviating=len(DEVIATIONS),
        deviations="\n".join(f"- `{name}`: {reason}." for name, reason in DEVIATIONS.items()),
        on_cpu="\n".join(_cpu_rows(passing_cases())),
    )
    rows = (f"| {name} | {good} | {total} |\n" for name, (good, total) in sorted(counts.items()))
    DOCUMENT.write_text(text + "".join(rows))


def run_on_device(names: Sequence[str], jobs: int, target: str) -> int:
    """Run cases on a device; 1 if one fails that is not listed, or the other way round."""
    with tempfile.TemporaryDirectory() as home:
        set_home(Path(home))
        outcomes = run_all(names, jobs, target)
    failed = {name for name, problem in outcomes.items() if problem is not None}
    wrong = sorted(name for name in names if works_on_devices(name) == (name in failed))
    print(f"{target}: {len(names) - len(failed)} of {len(names)} cases pass")
    for name in wrong:
        print(f"{name}: {outcomes[name] or 'passes, though ON_DEVICES lists it'}")
    return 1 if wrong else 0


def main() -> int:
    """Run what the command line asks for; 1 if a case that passed before fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--filter", default="", help="only cases whose name has this regex")
    parser.add_argument("--target", default=CPU, help="a device to run the cases on")
    parser.add_argument("--failures", action="store_true", help="tell why cases fail")
    parser.add_argument(
        "--document", action="store_true", help="only write the page, of the cases in passing.txt"
    )
    options = parser.parse_args()
    if options.document:
        passing = set(passing_cases())
        write_document({n: None if n in passing else "not listed" for n in sorted(all_cases())})
        return 0
    cases = all_cases() if options.target == CPU else passing_cases()
    names = sorted(n for n in cases if re.search(options.filter, n))
    if options.target != CPU:
        names = [name for name in names if name not in DEVIATIONS]
        return run_on_device(names, options.jobs, options.target)
    with tempfile.TemporaryDirectory() as home:
        set_home(Path(home))
        outcomes = run_all(names, options.jobs)
    passed = {name for name, problem in outcomes.items() if problem is None}
    listed = set(passing_cases()) - DEVIATIONS.keys()
    lost = sorted(listed & set(outcomes) - passed)
    print(f"{len(passed)} of {len(outcomes)} cases pass")
    for group, (good, all_) in count_groups(outcomes).items():
        print(f"{good} of {all_}: {group}")
    for name in sorted(set(outcomes) - passed) if options.failures else lost:
        print(f"{name}: {outcomes[name]}")
    PASSING.write_text("".join(f"{n}\n" for n in sorted(passed | listed)))
    if not options.filter:
        write_document(outcomes)
    if lost:
        print(f"{len(lost)} cases passed before and fail now")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
