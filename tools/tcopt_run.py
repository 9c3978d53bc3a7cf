"""`tcopt-run`: run a model, time it, and report the accuracy of its results."""

from __future__ import annotations

import argparse
import sys
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.random_inputs import input_values
from tcopt.support.data.differences import Accuracy, compare, report
from tcopt.support.data.shape_text import shape_text
from tcopt.support.data.strings import dtype_text, is_text
from tcopt.support.errors import InputError
from tcopt.support.files.access import is_replaced, open_output
from tcopt.tools.command_line import cli
from tcopt.tools.command_line.inputs import output_arrays, read_arrays
from tcopt.tools.compiling import compile_model, print_extents
from tcopt.tools.results.references import REFERENCE, RUNTIMES, measure, reference_run

if TYPE_CHECKING:
    from tcopt.runtime import Model

PROG = "tcopt-run"

Array = NDArray[Any]
Feeds = dict[str, Array]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    args = _argument_parser().parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback, plugins=args.load)


def _argument_parser() -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    add = parser.add_argument
    add("model", help="an ONNX model, or a .tcm file that tcopt-compile wrote")
    add("--target", default="cpu", help="target to compile an ONNX model for (cpu)")
    cli.add_accuracy(parser)
    cli.add_limits(parser)
    cli.add_inputs(parser)
    cli.add_insert(parser)
    cli.add_cache(parser)
    cli.add_tuned(parser)
    add("--output", metavar="FILE.npz", help="write the results")
    add(
        "--expected-output",
        action="append",
        default=[],
        metavar="NAME=@FILE.npy",
        help="expected value of an output; a larger difference is an error",
    )
    add("--compare", choices=RUNTIMES, help="compare results and time with another runtime")
    add(
        "--per-layer",
        action="store_true",
        help="with --compare: find the first layer whose result differs",
    )
    add("--rtol", type=float, default=1e-4, help="accepted difference / output range (1e-4)")
    add("--atol", type=float, default=1e-6, help="accepted absolute difference (1e-6)")
    add("--threads", type=int, help="threads to run on, by default one per core")
    add("--timeout", type=float, metavar="SECONDS", help="stop a run that takes longer")
    add("--repeat", type=int, default=1, help="timed runs (1)")
    cli.add_load(parser)
    cli.add_common_arguments(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    _check_arguments(args)
    if args.per_layer:
        return _compare_layers(args)
    model = _load(args)
    model.threads = args.threads
    feeds = _feeds(model, args)
    print_extents(model, feeds)
    expected = read_arrays(args.expected_output)
    names = [output.name for output in model.outputs]
    results, timing = measure(lambda: model.run(feeds, timeout=args.timeout), args.repeat)
    outputs = output_arrays(names, results)
    for name in expected:
        if name not in outputs:
            listed = ", ".join(outputs)
            raise InputError(f"there is no output '{name}'", hint=f"outputs are {listed}")
    for name, array in outputs.items():
        print(f"{name}: {shape_text(array.shape) or 'scalar'} {dtype_text(array.dtype)}")
    print(f"tcopt: {timing}")
    if args.output:
        _save_arrays(args.output, outputs)
    if args.compare:
        run = reference_run(args.compare, args.model, args.threads)
        reference, reference_timing = measure(lambda: run(feeds), args.repeat)
        print(f"{args.compare}: {reference_timing}")
        print(f"tcopt / {args.compare}: {timing.median / reference_timing.median:.2f}x the time")
        expected = {**output_arrays(names, reference), **expected}
    return _judge(outputs, expected, args) if expected else 0


def _save_arrays(path: str, arrays: Feeds) -> None:
    """Write a `.npz` file; the suffix is added if missing, as numpy does."""
    place = Path(path)
    if is_replaced(place) and place.suffix != ".npz":
        place = place.with_name(place.name + ".npz")
    # Unlike np.savez, which does not accept an array named "file".
    with open_output(place) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                plain = array.astype(str) if is_text(array.dtype) else array
                np.lib.format.write_array(member, plain, allow_pickle=False)


def _check_arguments(args: argparse.Namespace) -> None:
    if not Path(args.model).is_file():
        raise InputError(f"there is no file '{args.model}'")
    if args.repeat < 1:
        raise InputError(f"--repeat {args.repeat} is less than one run")
    if args.threads is not None and args.threads < 1:
        raise InputError(f"--threads {args.threads} is less than one thread")
    if args.compare and Path(args.model).suffix == ".tcm":
        raise InputError(
            f"{args.compare} cannot run a .tcm file",
            hint="give the ONNX model it was compiled from",
        )
    if Path(args.model).suffix == ".tcm" and (args.shape or args.dim or args.limit):
        raise InputError(
            "a .tcm file is compiled: --shape, --dim and --limit change nothing",
            hint="give the ONNX model, or compile it again with tcopt-compile",
        )
    if args.per_layer and not args.compare:
        raise InputError(
            "--per-layer compares with another runtime", hint=f"add --compare {REFERENCE}"
        )


def _load(args: argparse.Namespace) -> Model:
    import tcopt

    if Path(args.model).suffix == ".tcm":
        return tcopt.load(args.model)
    model, progress = compile_model(args)
    print(f"compiled in {progress.summary()}")
    return model


def _feeds(model: Model, args: argparse.Namespace) -> Feeds:
    return input_values(model, read_arrays(args.input), args.seed)


def _compare_layers(args: argparse.Namespace) -> int:
    from tcopt.tools.results.layers import compare_layers, layers_report, with_all_results
    from tcopt.tools.results.observed import match_values
    from tcopt.tools.results.observed_model import observe_model

    source, layers = with_all_results(args.model)
    run = observe_model(args, read_arrays(args.input))
    print(f"compiled in {run.seconds:.1f} s, {len(run.kernels)} kernel calls observed")
    reference = reference_run(args.compare, source.data)(run.feeds)
    theirs = dict(zip(source.outputs, reference, strict=True))
    arrays = {name: value for name, value in theirs.items() if isinstance(value, np.ndarray)}
    ours = match_values(run.kernels, source.produced, source.users, arrays) | run.results
    if not any(layer.value in ours for layer in layers):
        raise InputError(
            "no result of a layer can be observed", hint="--compare alone compares the outputs"
        )
    results = compare_layers(
        layers,
        ours,
        theirs,
        computed={node for each in run.kernels for node in each.nodes},
        rtol=args.rtol,
        atol=args.atol,
    )
    print(layers_report(results, args.compare, rtol=args.rtol, atol=args.atol))
    return 0 if all(result.passed for result in results) else 1


def compare_outputs(outputs: Feeds, expected: Feeds, *, rtol: float, atol: float) -> list[Accuracy]:
    """Compare each output with its expected value.

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
