"""`make run`: compile and run ResNet-50 from the ONNX wheel, and compare it with onnxruntime."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

import tcopt
from tcopt.frontends.onnx.building.examples import find_example_model
from tcopt.frontends.onnx.building.random_weights import randomize_weights
from tcopt.runtime.random_inputs import input_values
from tcopt.support.processes.cores import default_threads
from tcopt.support.processes.turns import Times, speed, take_turns
from tcopt.tools.benchmarking.sides import load_peer
from tcopt.tools.command_line import cli
from tcopt.tools.command_line.progress import CompileProgress
from tcopt.tools.command_line.terminal import bare
from tcopt.tools.tcopt_run import compare_outputs

PROG = "tcopt-demo"
_MODEL = "light_resnet50"
_PEER = "onnxruntime"
_ROUNDS = 8
_BURST_S = 0.1
_RTOL = 1e-4


def main() -> int:
    """Run the demonstration; return exit code 1 if the results differ."""
    return cli.run_tool(PROG, _run, show_traceback="--traceback" in sys.argv)


def _run() -> int:
    console = Console(file=bare(sys.stdout))
    console.print(f"[bold]{_MODEL}[/] with seeded random weights: import, compile, run, compare")
    proto = randomize_weights(onnx.load(find_example_model(_MODEL)), seed=0)
    with CompileProgress() as progress:
        model = tcopt.compile(proto, target="cpu", progress=progress)
    feeds = input_values(model, {}, 0)
    peer = load_peer(_PEER, proto.SerializeToString(), feeds, default_threads())
    results, reference = model.run(feeds), peer.outputs()
    times = take_turns({"tcopt": lambda: model.run(feeds), _PEER: peer.run}, _ROUNDS, _BURST_S)
    names = [output.name for output in model.outputs]
    accuracy = compare_outputs(
        dict(zip(names, results, strict=True)),
        dict(zip(names, reference, strict=True)),
        rtol=_RTOL,
        atol=0.0,
    )
    console.print(_compile_table(progress))
    console.print(_result_table(times))
    for result in accuracy:
        share = result.least_rtol
        console.print(
            f"{result.name}: max difference {result.max_abs:.3g}, {share:.2g} of the output's "
            f"range ({'within' if result.passed else '[red]beyond[/]'} {_RTOL:g})"
        )
    with tempfile.TemporaryDirectory() as folder:
        _check_reload(model, Path(folder) / "resnet50.tcm", feeds, results)
    console.print("saved, loaded and run again: the same results")
    return 0 if all(result.passed for result in accuracy) else 1


def _check_reload(
    model: tcopt.Model, path: Path, feeds: dict[str, np.ndarray], expected: list[np.ndarray]
) -> None:
    model.save(str(path))
    for again, first in zip(tcopt.load(str(path)).run(feeds), expected, strict=True):
        np.testing.assert_array_equal(again, first)


def _compile_table(progress: CompileProgress) -> Table:
    table = Table(title="compile", title_justify="left")
    table.add_column("phase")
    table.add_column("seconds", justify="right")
    for phase, seconds in progress.seconds.items():
        table.add_row(phase, f"{seconds:.2f}")
    table.add_row("[bold]total", f"[bold]{progress.total:.2f}")
    return table


def _result_table(times: dict[str, Times]) -> Table:
    threads = default_threads()
    table = Table(title=f"run, batch 1, threads: {threads}, interleaved", title_justify="left")
    for column in ("", "ms (median)", "ms (best)", "speed"):
        table.add_column(column, justify="right" if column else "left")
    for name, taken in times.items():
        faster = speed(taken, times[_PEER])
        table.add_row(
            name, f"{taken.median * 1e3:.1f}", f"{taken.least * 1e3:.1f}", f"{faster:.2f}x"
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
