"""`tcopt-tune`: search for faster schedules of a model, and keep them if the model is faster.

tcopt-tune model.onnx --time 10m        search, compare, write model.tuned.mlir
tcopt-tune show model.onnx              tuned schedules and records of a model
tcopt-tune plot model.onnx -o folder    plots of the search
tcopt-tune export -o records.jsonl      write records to a file
tcopt-tune merge records.jsonl          add records from a file or database
tcopt-tune verify model.onnx            measure recorded schedules again on this machine
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tcopt.tools.command_line import cli
from tcopt.tools.command_line.inputs import read_arrays

if TYPE_CHECKING:
    from tcopt.tuner.entry import Tuning

PROG = "tcopt-tune"

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    name = given[0] if given and given[0] in _COMMANDS else "tune"
    parser, run = _COMMANDS[name]
    args = parser().parse_args(given[1:] if name != "tune" else given)
    return cli.run_tool(PROG, partial(run, args), show_traceback=args.traceback, plugins=args.load)


def duration(text: str) -> float:
    """Parse a duration in seconds: a number with an optional suffix s, m or h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"a time is 90s, 10m or 1h, not '{text[:20]}'")
    return float(match[1]) * _SECONDS[match[2]]


def count(text: str) -> int:
    """Parse a number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got '{text[:20]}'")
    return int(text)


def _parser(command: str, text: str) -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(f"{PROG} {command}".strip(), text)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    cli.add_load(parser)
    cli.add_common_arguments(parser)
    return parser


def _add_model(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    add = parser.add_argument
    add("model", nargs=nargs, help="an ONNX model")
    add("--target", default="cpu", help="target to compile for: cpu, opencl, vdla ... (cpu)")
    cli.add_accuracy(parser)
    cli.add_limits(parser)
    cli.add_inputs(parser)


def _add_db(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--db", metavar="URL", help="the records: a file or a database (the user's file)"
    )


def _add_pool(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pool", metavar="ADDRESS", help="measure on the workers of a scheduler (this machine)")
    add("--label", help="with --pool: label of the workers, such as cpu:znver5")
    cli.add_certificates(parser)


def _tune_parser() -> argparse.ArgumentParser:
    parser = _parser("", __doc__ or "")
    _add_model(parser)
    _add_db(parser)
    add = parser.add_argument
    add("--time", type=duration, default=600.0, help="how long to search: 90s, 10m, 1h (10m)")
    add("--trials", type=count, help="maximum number of schedules to measure")
    _add_pool(parser)
    add("--threads", type=count, help="threads that kernels run on (all)")
    add("-o", "--output", metavar="FILE", help="the lock file (model.tuned.mlir)")
    add(
        "--rounds",
        type=count,
        default=12,
        help="interleaved runs of each model at the end, at least 12 (12)",
    )
    add(
        "--strategy",
        choices=("model", "estimate", "random"),
        default="model",
        help="how schedules are ranked; the other strategies are for comparison (model)",
    )
    add(
        "--no-graph",
        action="store_true",
        help="search schedules only, without choices about the graph such as Winograd or direct",
    )
    add("--explain", action="store_true", help="show how the schedules differ from the default")
    return parser


def _run_tune(args: argparse.Namespace) -> int:
    from tcopt.support.processes.cores import default_threads
    from tcopt.tools.tuning.commands import model_options, pool_place
    from tcopt.tools.tuning.live import LiveTable
    from tcopt.tuner.entry import tune_with
    from tcopt.tuner.settings import TuneSettings

    options = model_options(args)
    settings = TuneSettings(
        seconds=args.time,
        trials=args.trials,
        db=args.db,
        pool=pool_place(args),
        output=args.output,
        threads=args.threads or default_threads(),
        seed=args.seed,
        strategy=args.strategy,
        rounds=max(args.rounds, 12),
        graph=0.0 if args.no_graph else None,
        progress=print,
        feeds=read_arrays(args.input),
    )
    with LiveTable() as table:
        found = tune_with(args.model, options, replace(settings, callback=table))
    print(summary(found))
    if args.explain and found.path is not None:
        _explain(args, found.path)
    return 0


def summary(found: Tuning) -> str:
    """Return the result of tuning as text."""
    head = f"{found.trials} trials in {found.seconds:.0f} s, ended: {found.ended}"
    verdict = found.verdict
    if verdict is None:
        return f"{head}\nno kernel is faster than with its default schedule"
    compared = (
        f"{verdict.before_ms:.3g} -> {verdict.after_ms:.3g} ms, {verdict.speed:.3f}x "
        f"({verdict.interval})"
    )
    if not found.accepted:
        return f"{head}\nnot kept: {compared}; {verdict.reason}"
    kernels = f"{len(found.kernels)} kernels in {found.path}"
    more = f", without the {found.left_out} with the least gain" if found.left_out else ""
    return f"{head}\naccepted: {compared}; {verdict.reason}\n{kernels}{more}"


def _explain(args: argparse.Namespace, path: Path) -> None:
    from tcopt.schedules.tuning.lock_file import read_lock
    from tcopt.tools.tuning.commands import tasks_for
    from tcopt.tools.tuning.explain import explain_lock

    for kernel in explain_lock(read_lock(path), tasks_for(args)):
        print(kernel.text())


def _show_parser() -> argparse.ArgumentParser:
    parser = _parser("show", "Show the tuned schedules of a model, and the records of its kernels.")
    _add_model(parser)
    _add_db(parser)
    parser.add_argument("--lock", metavar="FILE", help="the lock file (model.tuned.mlir)")
    parser.add_argument("--steps", action="store_true", help="also show the steps that differ")
    return parser


def _plot_parser() -> argparse.ArgumentParser:
    parser = _parser(
        "plot", "Plot searches: curves, bars by layer, mispredictions of the learned model."
    )
    _add_model(parser)
    _add_db(parser)
    add = parser.add_argument
    add("-o", "--output", metavar="FOLDER", default="tuning", help="folder of the plots (tuning)")
    add("--format", choices=("svg", "png", "pdf"), default="svg", help="format of the plots (svg)")
    add(
        "--kernels",
        type=count,
        default=6,
        help="number of kernels to plot, those with the most trials (6)",
    )
    return parser


def _export_parser() -> argparse.ArgumentParser:
    parser = _parser("export", "Write records as lines of JSON, all or those of a model's kernels.")
    _add_model(parser, nargs="?")
    _add_db(parser)
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", required=True, help="the file")
    return parser


def _merge_parser() -> argparse.ArgumentParser:
    parser = _parser("merge", "Add records to one's own, skipping those that exist.")
    _add_db(parser)
    parser.add_argument("sources", nargs="+", help="files of records, or databases")
    return parser


def _verify_parser() -> argparse.ArgumentParser:
    parser = _parser("verify", "Measure the best recorded schedules again on this machine.")
    _add_model(parser)
    _add_db(parser)
    _add_pool(parser)
    add = parser.add_argument
    add("--threads", type=count, help="threads that kernels run on (all)")
    add("--count", type=count, default=3, help="schedules of each kernel (3)")
    return parser


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    """Return a command that does not search."""

    def run(args: argparse.Namespace) -> int:
        from tcopt.tools.tuning import commands

        return int(getattr(commands, name)(args))

    return run


_Command = tuple[Callable[[], argparse.ArgumentParser], Callable[[argparse.Namespace], int]]
_COMMANDS: dict[str, _Command] = {
    "tune": (_tune_parser, _run_tune),
    "show": (_show_parser, _command("show")),
    "plot": (_plot_parser, _command("plot")),
    "export": (_export_parser, _command("export")),
    "import": (_merge_parser, _command("merge")),
    "merge": (_merge_parser, _command("merge")),
    "verify": (_verify_parser, _command("verify")),
}

if __name__ == "__main__":
    sys.exit(main())
