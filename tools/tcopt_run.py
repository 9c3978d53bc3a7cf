"""`tcopt-run`: run a model, time it, and say how accurate its results are."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError
from tcopt.tools import cli
from tcopt.tools.accuracy import Accuracy, compare, report
from tcopt.tools.compiling import compile_model
from tcopt.tools.inputs import InputSpec, make_inputs, read_arrays, show_shape
from tcopt.tools.shapes import parse_shapes

if TYPE_CHECKING:
    from tcopt.runtime import Model

PROG = "tcopt-run"

Array = NDArray[Any]
Feeds = dict[str, Array]


@dataclass(frozen=True)
class Timing:
    """Milliseconds of repeated runs after a first one that is not counted."""

    median: float
    fastest: float
    runs: int

    def __str__(self) -> str:
        return f"{self.median:.2f} ms median, {self.fastest:.2f} ms best of {self.runs}"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    args = _argument_parser().parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback)


def _argument_parser() -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    add = parser.add_argument
    add("model", help="an ONNX model, or a .tcm file that tcopt-compile wrote")
    add("--target", default="cpu", help="what to compile an ONNX model for (cpu)")
    cli.add_accuracy(parser)
    cli.add_limits(parser)
    cli.add_inputs(parser)
    add("--output", metavar="FILE.npz", help="write the results")
    add(
        "--expected-output",
        action="append",
        default=[],
        metavar="NAME=@FILE.npy",
        help="what an output should be; a larger difference is an error",
    )
    add("--compare", choices=("onnxruntime",), help="compare results and time with another runtime")
    add("--rtol", type=float, default=1e-4, help="accepted difference / output range (1e-4)")
    add("--atol", type=float, default=1e-6, help="accepted absolute difference (1e-6)")
    add("--threads", type=int, help="threads to run on, default one a core")
    add("--repeat", type=int, default=1, help="timed runs (1)")
    cli.add_common_arguments(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    _check_arguments(args)
    model = _load(args)
    model.threads = args.threads
    specs = [InputSpec(i.name, tuple(i.shape), np.dtype(i.dtype)) for i in model.inputs]
    feeds = make_inputs(specs, read_arrays(args.input), seed=args.seed)
    expected = read_arrays(args.expected_output)
    names = [output.name for output in model.outputs]
    for name in expected:
        if name not in names:
            raise InputError(f"there is no output '{name}'", hint=f"outputs are {', '.join(names)}")
    results, timing = measure(lambda: model.run(feeds), args.repeat)
    outputs = dict(zip(names, results, strict=True))
    for output in model.outputs:
        print(f"{output.name}: {show_shape(outputs[output.name].shape)} {output.dtype}")
    print(f"tcopt: {timing}")
    if args.output:
        np.savez(args.output, **outputs)  # pyright: ignore[reportArgumentType]
    if args.compare:
        reference, reference_timing = run_onnxruntime(args.model, feeds, args.repeat, args.threads)
        print(f"onnxruntime: {reference_timing}")
        print(f"tcopt / onnxruntime: {timing.median / reference_timing.median:.2f}x the time")
        expected = {**dict(zip(names, reference, strict=True)), **expected}
    return _judge(outputs, expected, args) if expected else 0


def _check_arguments(args: argparse.Namespace) -> None:
    if not Path(args.model).is_file():
        raise InputError(f"there is no file '{args.model}'")
    if args.repeat < 1:
        raise InputError(f"--repeat {args.repeat} is less than one run")
    if args.threads is not None and args.threads < 1:
        raise InputError(f"--threads {args.threads} is less than one thread")
    if args.compare and Path(args.model).suffix == ".tcm":
        raise InputError(
            "onnxruntime cannot run a .tcm file", hint="give the ONNX model it was compiled from"
        )


def _load(args: argparse.Namespace) -> Model:
    import tcopt

    if Path(args.model).suffix == ".tcm":
        return tcopt.load(args.model)
    model, progress = compile_model(args, parse_shapes(args.shape))
    print(f"compiled in {progress.summary()}")
    return model


def measure(run: Callable[[], list[Array]], repeat: int) -> tuple[list[Array], Timing]:
    """Run once, then `repeat` times against the clock."""
    results = run()
    times: list[float] = []
    for _ in range(repeat):
        started = time.perf_counter()
        results = run()
        times.append((time.perf_counter() - started) * 1e3)
    return results, Timing(float(np.median(times)), min(times), repeat)


def run_onnxruntime(
    model: str | bytes, feeds: Feeds, repeat: int, threads: int | None
) -> tuple[list[Array], Timing]:
    """The results and time of onnxruntime's CPU provider.

    Raises:
        InputError: onnxruntime is not installed or does not take the model.
    """
    try:
        import onnxruntime
    except ImportError:
        raise InputError("onnxruntime is not installed", hint="pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        # pyright cannot see into the compiled module, hence the conversion.
        return measure(lambda: [np.asarray(v) for v in session.run(None, feeds)], repeat)
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise InputError(f"onnxruntime does not run the model: {first}") from error


def compare_outputs(outputs: Feeds, expected: Feeds, *, rtol: float, atol: float) -> list[Accuracy]:
    """Measure each expected output.

    Raises:
        InputError: an output has another shape than expected.
    """
    found: list[Accuracy] = []
    for name, value in expected.items():
        try:
            found.append(compare(name, np.asarray(outputs[name]), value, rtol=rtol, atol=atol))
        except ValueError as error:
            raise InputError(f"output '{name}' has {error}") from None
    return found


def _judge(outputs: Feeds, expected: Feeds, args: argparse.Namespace) -> int:
    results = compare_outputs(outputs, expected, rtol=args.rtol, atol=args.atol)
    print(report(results, rtol=args.rtol, atol=args.atol))
    return 0 if all(r.passed for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
