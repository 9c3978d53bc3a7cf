"""Compile time without and with the cache, and peak memory.

    python benchmarks/compile_time.py                          # ResNet-50
    python benchmarks/compile_time.py light_densenet121 model.onnx --rounds 3 --json out.json

Every compile runs in a new process; the time covers `import tcopt` and `tcopt.compile`, with all
that they import. Cold: with an empty cache. Kernels: with the kernels cached by a cold compile.
Warm: with its program too. Light models get random weights. The fastest of several rounds counts.
Memory is the peak resident size of the process, without its workers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tcopt.support.files.access import write_output

_CHILD = """
import json, resource, sys, time
source = sys.argv[1]
workers = None if sys.argv[2] == "auto" else int(sys.argv[2])
start = time.perf_counter()
import tcopt
model = tcopt.compile(source, workers=workers)
seconds = time.perf_counter() - start
children = resource.getrusage(resource.RUSAGE_CHILDREN)
own = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "seconds": seconds,
    "steps": model.program.compile_times,
    "kernels_compiled": model.program.kernels_compiled,
    "cpu_seconds": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
    "peak_mb": own.ru_maxrss / 1024,
}))
"""


KINDS = {"cold": "1", "kernels": "kernels", "warm": "1"}
"""The measurements, in this order on one cache, and the cache setting of each."""


def compile_once(source: Path, cache: Path, setting: str, workers: str) -> dict[str, Any]:
    """Compile once in a new process, with bytecode cached as for an installed package."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(source), workers],
        env={**environment, "TCOPT_CACHE_DIR": str(cache), "TCOPT_CACHE": setting},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def measure(name: str, folder: Path, rounds: int, workers: str) -> dict[str, Any]:
    """Measure the compiles of one model."""
    source = _source(name, folder)
    best: dict[str, dict[str, Any]] = {}
    for number in range(rounds):
        cache = folder / f"{Path(name).stem}-{number}"
        for kind, setting in KINDS.items():
            result = compile_once(source, cache, setting, workers)
            if kind not in best or result["seconds"] < best[kind]["seconds"]:
                best[kind] = result
    return {"model": name, "workers": workers, **best}


def _source(name: str, folder: Path) -> Path:
    """Return the file of a model; a light model with its weights filled in."""
    if Path(name).is_file():
        return Path(name)
    import onnx

    from tcopt.frontends.onnx.building.examples import find_example_model
    from tcopt.frontends.onnx.building.random_weights import randomize_weights

    path = folder / f"{name}.onnx"
    onnx.save(randomize_weights(onnx.load(str(find_example_model(name))), 0), path)
    return path


def show(results: list[dict[str, Any]]) -> None:
    """Print the table."""
    steps = [*results[0]["cold"]["steps"], *results[0]["warm"]["steps"]]
    table = Table("model", "cache", "total s", *steps, "CPU s", "kernels", "peak MB")
    for result in results:
        for kind in KINDS:
            entry = result[kind]
            table.add_row(
                result["model"],
                kind,
                f"{entry['seconds']:.2f}",
                *(
                    f"{entry['steps'][step]:.2f}" if step in entry["steps"] else ""
                    for step in steps
                ),
                f"{entry['cpu_seconds']:.2f}",
                str(entry["kernels_compiled"]),
                f"{entry['peak_mb']:.0f}",
            )
    Console(width=140).print(table)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=["light_resnet50"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", default="auto", help="a number, or auto")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [
            measure(name, Path(folder), options.rounds, options.workers) for name in options.models
        ]
    show(results)
    if options.json:
        write_output(options.json, json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
