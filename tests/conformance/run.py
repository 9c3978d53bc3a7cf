"""Runs all of ONNX's backend suite: `make conformance`.

A case that passes is added to passing.txt; one that is listed there and fails makes the run
fail. What passes is written to docs/conformance.md, operator by operator.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx
from rich.progress import track

from conformance.cases import PASSING, all_cases, passing_cases, run_case, set_home

DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"

Outcomes = Mapping[str, str | None]

_HEAD = """# Conformance

ONNX {version} ships a suite for backends: {total} cases for the CPU, {kinds}. Every one is compiled
and run, its outputs compared with the suite's: shapes and types exactly, numbers within a relative
1e-3. **{passed} pass.** `make conformance` runs them all and writes this page; `make test` runs a
part of those that pass.

```python
import onnx
from tcopt.frontends.onnx.backend import Backend

rep = Backend.prepare(onnx.load("model.onnx"))
outputs = rep.run([x])
```

## Operators

Cases of single operators, and how many of them pass. A case of an operator that ONNX defines by
others is there twice: as it is, and expanded.

| operator | pass | of |
|---|---|---|
"""


def _run(name: str) -> tuple[str, str | None]:
    return name, run_case(name)


def run_all(names: list[str], jobs: int) -> Outcomes:
    """What went wrong with each case; None for those that pass."""
    # A case that ends its process must not end the run.
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=200) as pool:
        results = pool.imap_unordered(_run, names, chunksize=4)
        return dict(track(results, "conformance", total=len(names)))


def operator_of(name: str, operators: Mapping[str, str]) -> str:
    """The operator that a case is named after: `test_relu_expanded` is of Relu."""
    plain = name.removeprefix("test_").replace("_", "").lower()
    found = [own for own in operators if plain.startswith(own)]
    return operators[max(found, key=len)] if found else "others"


def _words(kind: str) -> str:
    """`PyTorchConverted` as words."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", kind)


def write_document(outcomes: Outcomes) -> None:
    """Write docs/conformance.md."""
    operators = {s.name.lower(): s.name for s in onnx.defs.get_all_schemas() if not s.domain}
    kinds: dict[str, int] = {}
    counts: dict[str, list[int]] = {}
    for name, problem in outcomes.items():
        category = re.sub(r"^OnnxBackend|(Model)?Test$", "", all_cases()[name][0])
        kinds[category] = kinds.get(category, 0) + 1
        if category == "Node":
            entry = counts.setdefault(operator_of(name, operators), [0, 0])
            entry[0] += problem is None
            entry[1] += 1
    listed = ", ".join(f"{n} {_words(kind)}" for kind, n in kinds.items())
    text = _HEAD.format(
        version=onnx.__version__,
        total=len(outcomes),
        kinds=listed,
        passed=sum(problem is None for problem in outcomes.values()),
    )
    rows = (f"| {name} | {good} | {total} |\n" for name, (good, total) in sorted(counts.items()))
    DOCUMENT.write_text(text + "".join(rows))


def main() -> int:
    """Run what the command line asks for; 1 if a case that passed before fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--filter", default="", help="only cases whose name has this regex")
    parser.add_argument("--failures", action="store_true", help="tell why cases fail")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        set_home(Path(home))
        names = sorted(n for n in all_cases() if re.search(options.filter, n))
        outcomes = run_all(names, options.jobs)
    passed = {name for name, problem in outcomes.items() if problem is None}
    lost = sorted(set(passing_cases()) & set(outcomes) - passed)
    print(f"{len(passed)} of {len(outcomes)} cases pass")
    for name in sorted(set(outcomes) - passed) if options.failures else lost:
        print(f"{name}: {outcomes[name]}")
    PASSING.write_text("".join(f"{n}\n" for n in sorted(passed | set(passing_cases()))))
    if not options.filter:
        write_document(outcomes)
    if lost:
        print(f"{len(lost)} cases passed before and fail now")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
