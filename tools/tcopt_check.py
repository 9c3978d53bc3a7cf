"""`tcopt-check`: list what prevents compiling an ONNX model, and summarise the model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcopt.support.data.shape_text import shape_text
from tcopt.support.errors import InputError, TcoptError, printable
from tcopt.tools.command_line import cli
from tcopt.tools.command_line.inputs import read_arrays
from tcopt.tools.command_line.shapes import dims_text, parse_dims, parse_shapes
from tcopt.tools.compiling import options_of

if TYPE_CHECKING:
    from tcopt.frontends.onnx.checking import CheckReport, ModelSummary, Shape
    from tcopt.support.remarks import Remark

PROG = "tcopt-check"
_PLACES_LISTED = 5
_LINE_LENGTH = 5000


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    args = _argument_parser().parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback, plugins=args.load)


def _argument_parser() -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    add = parser.add_argument
    add("model", help="an ONNX model")
    cli.add_shapes(parser)
    cli.add_limits(parser)
    cli.add_deciding_inputs(parser)
    add("--all", action="store_true", help="list every node of a problem instead of the first few")
    add(
        "--kernels",
        action="store_true",
        help="schedule every kernel as well, and list those far from what the target allows",
    )
    add("--target", default="cpu", help="target of --kernels (cpu: this machine)")
    add("--json", action="store_true", help="print everything found as JSON")
    cli.add_load(parser)
    cli.add_common_arguments(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    from tcopt.frontends.onnx.checking import check_model
    from tcopt.frontends.onnx.model.limits import parse_limits

    path = Path(args.model)
    if not path.is_file():
        raise InputError(f"there is no file '{args.model}'")
    report = check_model(
        path,
        shapes=parse_shapes(args.shape),
        values=read_arrays(args.input),
        dims=parse_dims(args.dim),
        limits=parse_limits(args.limit),
        follow_links=args.follow_links,
    )
    slow = _slow_kernels(args, report) if args.kernels else None
    size = path.stat().st_size
    if args.json:
        found = report_json(report, args.model, size)
        if slow is not None:
            found["slow_kernels"] = [asdict(remark) for remark in slow]
        print(json.dumps(found, indent=1))
    else:
        print(report_text(report, args.model, size, places=None if args.all else _PLACES_LISTED))
        if slow is not None:
            print(printable(_slow_text(slow), _LINE_LENGTH, "\n"))
    return 0 if report.passed else 1


def _slow_kernels(args: argparse.Namespace, report: CheckReport) -> list[Remark] | None:
    """Return remarks about slow kernels; None if the model cannot be compiled before a run."""
    from tcopt.compiler.driver import slow_kernels
    from tcopt.frontends.onnx.importer import import_whole

    options = options_of(args, read_arrays(args.input))
    if not report.passed or report.at_first_run:
        return None
    options = replace(options, shapes={**report.trial_shapes, **options.shapes})
    return slow_kernels(import_whole(args.model, options), options.phases)


def _slow_text(slow: Sequence[Remark]) -> str:
    if not slow:
        return "kernels: none is estimated to be far from what the target allows"
    lines = [f"  slow: {r.where or r.subject}: {r.by}: {r.message}" for r in slow]
    return "\n".join(["kernels far from what the target allows, by an estimate:", *lines])


def report_json(report: CheckReport, name: str, size: int) -> dict[str, Any]:
    """Return the report as JSON values; `size` is the model file's in bytes."""
    summary = report.summary
    return {
        "model": name,
        "file_bytes": size,
        "passed": report.passed,
        "problems": [_problem_json(error) for error in report.problems],
        "at_first_run": [
            {**_problem_json(error), "depends_on": list(error.inputs)}
            for error in report.at_first_run
        ],
        "notes": report.notes,
        "trial_dims": report.trial_dims,
        "trial_shapes": {name: list(shape) for name, shape in report.trial_shapes.items()},
        "summary": None if summary is None else _summary_json(summary),
    }


def _trial_text(name: str, shape: Shape) -> str:
    if isinstance(shape, tuple):
        return f"{name}:{shape_text(shape) or 'scalar'}"
    return f"{name}: {len(shape)} tensors of {shape_text(shape[0]) or 'scalar'}"


def _problem_json(error: TcoptError) -> dict[str, Any]:
    node = error.node
    return {
        "code": error.code,
        "message": error.message,
        "node": error.where,
        "operator": node and node.operator,
        "opset": node and node.opset,
        "inputs": node and list(node.inputs),
        "advice": error.hint,
    }


def _summary_json(summary: ModelSummary) -> dict[str, Any]:
    found = dict(vars(summary))
    for kind in ("inputs", "outputs"):
        found[kind] = [vars(value) for value in found[kind]]
    return found


def report_text(report: CheckReport, name: str, size: int, *, places: int | None) -> str:
    """Return the report as text, with at most `places` nodes of each problem."""
    lines: list[str] = []
    if report.summary is not None:
        lines += _summary_lines(report.summary, name, size)
    if report.trial_shapes:
        tried, option = dims_text(report.trial_dims), "--dim"
        if _unnamed(report):
            shapes = (_trial_text(n, s) for n, s in report.trial_shapes.items())
            tried, option = ", ".join(shapes), "--shape"
        lines.append(f"  checked with    {tried} (change them with {option})")
    if report.notes:
        lines += ["", "harmless:", *(f"  {note}" for note in report.notes)]
    for title, errors in (
        ("compiled at the first run, for the values seen", report.at_first_run),
        ("to fix", report.problems),
    ):
        if errors:
            lines += ["", f"{title}:", *_problem_lines(errors, places)]
    count = len({error.message for error in report.problems})
    nodes = len({error.where for error in report.problems})
    lines.append("")
    if report.passed:
        lines.append(f"{name}: no problem found")
    else:
        things = "1 problem" if count == 1 else f"{count} problems"
        lines.append(f"{name}: {things} at {nodes} node{'s' if nodes > 1 else ''}")
    return "\n".join(printable(line, _LINE_LENGTH, "\n") for line in lines)


def _unnamed(report: CheckReport) -> bool:
    """Whether an open dimension has no name."""
    return report.summary is None or "?" in report.summary.open_dimensions


def _symbol_text(name: str, users: Mapping[str, Sequence[str]]) -> str:
    given = f" -> {', '.join(users['outputs'])}" if users["outputs"] else ""
    return f"{name} ({', '.join(users['inputs'])}{given})"


def _summary_lines(summary: ModelSummary, name: str, size: int) -> list[str]:
    opsets = ", ".join(f"{domain} {version}" for domain, version in summary.opsets.items())
    operators = ", ".join(f"{count} {name}" for name, count in summary.operators.items())
    symbols = [_symbol_text(name, users) for name, users in summary.symbols.items()]
    unnamed = [name for name in summary.open_dimensions if name == "?"]
    rows = [
        ("file", f"{name}, {size / 1e6:.1f} MB, by {summary.producer}"),
        ("opset", f"{opsets or 'none'} (IR version {summary.ir_version})"),
        ("parameters", f"{summary.parameters:,} ({summary.parameter_bytes / 1e6:.1f} MB)"),
        ("inputs", ", ".join(map(str, summary.inputs)) or "none"),
        ("outputs", ", ".join(map(str, summary.outputs)) or "none"),
        ("open dimensions", ", ".join([*symbols, *unnamed]) or "none"),
        ("operators", f"{operators or 'none'} ({summary.nodes} nodes)"),
    ]
    if summary.functions:
        rows.append(("functions", str(summary.functions)))
    return [f"  {title:<15} {text}" for title, text in rows]


def _problem_lines(errors: Sequence[TcoptError], places: int | None) -> list[str]:
    """List each distinct problem once, with its nodes below it."""
    groups: dict[tuple[str, str], list[TcoptError]] = {}
    for error in errors:
        groups.setdefault((error.code, error.message), []).append(error)
    lines: list[str] = []
    for (code, message), found in groups.items():
        lines.append(f"  {code}: {message}")
        for error in found[:places]:
            node = f": {error.node}" if error.node else ""
            lines.append(f"    at {error.where or 'the model'}{node}")
        if places is not None and len(found) > places:
            lines.append(f"    and {len(found) - places} more (--all lists them)")
        hints = dict.fromkeys(error.hint for error in found if error.hint)
        lines += [f"    -> {hint}" for hint in hints]
    return lines


if __name__ == "__main__":
    sys.exit(main())
