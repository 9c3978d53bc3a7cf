"""`tcopt-quantize`: quantise the layers of a model to 8 bits, where this pays off.

tcopt-quantize model.onnx --data calibration.npz -o model.int8.onnx
tcopt-quantize model.onnx --data calibration.npz -o model.int8.onnx --max-error 0.02 --plot plan.svg
tcopt-quantize model.int8.onnx --data calibration.npz --report

Each layer is measured: the error that it adds at the output, its own signal-to-noise ratio, and the
time that it saves on this machine. Layers that do not pay off stay in floats.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcopt.support.errors import InputError
from tcopt.tools.command_line import cli
from tcopt.tools.command_line.inputs import read_arrays

if TYPE_CHECKING:
    from tcopt.quantization.plan import QuantizationPlan

PROG = "tcopt-quantize"

_SMOOTH = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    args = _argument_parser().parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback, plugins=args.load)


def _argument_parser() -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("model", help="an ONNX model")
    add(
        "--data",
        action="append",
        default=[],
        metavar="FILE.npz",
        help="calibration data: an array for each input, by name; may be repeated",
    )
    add("-o", "--output", metavar="FILE.onnx", help="the quantised model")
    add("--report", action="store_true", help="print the plan of a model that is already quantised")
    _add_numbers(parser)
    _add_plan(parser)
    add(
        "--follow-links",
        action="store_true",
        help="links of external data may point outside of the model's folder, as in model hubs",
    )
    cli.add_load(parser)
    cli.add_common_arguments(parser)
    return parser


def _add_numbers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("numbers")
    add = group.add_argument
    add(
        "--method",
        default="percentile",
        help="calibration: minmax, percentile, entropy, mse, best (percentile)",
    )
    add("--percentile", type=float, default=99.99, help="percentage of values in range (99.99)")
    add("--activations", default="uint8", help="type of activations: uint8, int8 (uint8)")
    add("--symmetric", action="store_true", help="use symmetric ranges for activations")
    add("--asymmetric-weights", action="store_true", help="give weights zero points")
    add(
        "--per-tensor",
        action="store_true",
        help="use one scale per weight tensor instead of one per channel",
    )
    add("--power-of-two", action="store_true", help="round scales to powers of two")
    add("--no-bias-correction", action="store_true", help="do not correct biases")
    add("--equalize", action="store_true", help="equalise the channels of consecutive layers")
    add(
        "--smooth",
        nargs="?",
        type=float,
        const=_SMOOTH,
        metavar="STRENGTH",
        help=f"SmoothQuant after normalisations, with this strength ({_SMOOTH:g})",
    )
    add("--float-functions", action="store_true", help="keep SiLU, GELU and the like in floats")
    add("--float-sums", action="store_true", help="keep additions after layers in floats")
    add(
        "--batch",
        type=int,
        help="extent of the first dimension, if the model leaves it open",
    )


def _add_plan(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("plan")
    add = group.add_argument
    add("--all", action="store_true", help="quantise all layers, measure nothing")
    add("--float", action="append", default=[], metavar="LAYER", help="a layer to keep in floats")
    add("--max-error", type=float, metavar="PART", help="maximum error at the output")
    add(
        "--min-gain",
        type=float,
        default=0.0,
        metavar="PART",
        help="minimum part of its time that a layer must save (0)",
    )
    add("--samples", type=int, default=4, help="number of runs to measure errors on (4)")
    add("--threads", type=int, help="threads for measuring times (all)")
    add("--plot", metavar="FILE", help="error against time: SVG, PNG or PDF")
    add("--json", metavar="FILE", help="the plan as JSON")


def _run(args: argparse.Namespace) -> int:
    _check(args)
    from tcopt.quantization.entry import quantize, report

    data = [read_arrays([f"@{path}"]) for path in args.data]
    common: dict[str, Any] = {
        "max_error": args.max_error,
        "min_gain": args.min_gain,
        "threads": args.threads,
        "follow_links": args.follow_links,
        "progress": print,
        "batch": args.batch,
        "samples": args.samples,
    }
    if args.report:
        _show(report(args.model, data, **common), args)
        return 0
    found = quantize(
        args.model,
        data,
        output=args.output,
        plan=not args.all,
        method=args.method,
        percentile=args.percentile,
        activations=args.activations,
        symmetric=args.symmetric,
        symmetric_weights=not args.asymmetric_weights,
        per_channel=not args.per_tensor,
        power_of_two=args.power_of_two,
        bias_correction=not args.no_bias_correction,
        equalize=args.equalize,
        smooth=args.smooth,
        functions=not args.float_functions,
        sums=not args.float_sums,
        floats=args.float,
        **common,
    )
    _show(found.plan, args)
    print(f"written to {found.path}")
    return 0


def _check(args: argparse.Namespace) -> None:
    if not args.data:
        raise InputError("there is no calibration data", hint="give it with --data FILE.npz")
    if not Path(args.model).is_file():
        raise InputError(f"there is no file '{args.model}'")
    if args.report == bool(args.output):
        raise InputError(
            "--report writes no model" if args.report else "no output file is given",
            hint="remove -o" if args.report else "write -o FILE.onnx",
        )
    if args.threads is not None and args.threads < 1:
        raise InputError(f"--threads {args.threads} is less than one thread")
    if args.all and (args.plot or args.json or args.max_error is not None or args.min_gain):
        raise InputError("--all measures nothing: there is no plan", hint="remove --all")


def _show(plan: QuantizationPlan, args: argparse.Namespace) -> None:
    from tcopt.support.files.access import write_output
    from tcopt.tools.plan_table import draw_plan, plan_json, plan_text, summary

    print(summary(plan) if args.all else plan_text(plan))
    if args.json:
        write_output(args.json, json.dumps(plan_json(plan), indent=1) + "\n")
    if args.plot:
        draw_plan(plan, Path(args.plot))


if __name__ == "__main__":
    sys.exit(main())
