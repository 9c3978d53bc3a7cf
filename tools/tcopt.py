"""`tcopt`: read a module at any level, run a pipeline of passes on it, and print it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, ParseError

from tcopt.frontends.onnx.model.limits import parse_limits
from tcopt.frontends.onnx.model.options import ImportOptions
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.ir.rewriting import limit_rewrites
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.running import Instrument, new_context, run_passes
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.support.registries.registry import PassFactory, all_passes, all_targets
from tcopt.support.suggestions import suggest
from tcopt.tools.command_line import cli
from tcopt.tools.command_line.shapes import parse_dims, parse_shapes
from tcopt.tools.passes.driver import (
    InputText,
    PrintOptions,
    blame,
    emit,
    parse_target_spec,
    print_module,
)
from tcopt.tools.passes.expected_errors import Expected, complaints, expected_errors
from tcopt.tools.passes.instruments import (
    DumpToFolder,
    PassTimer,
    PrintAfter,
    PrintAfterChange,
    PrintBefore,
    PrintDiff,
    VerifyEach,
    print_remarks,
)
from tcopt.tools.passes.weight_files import TextOutput

PROG = "tcopt"

_VERIFIED_OPS = 10_000
"""Modules with fewer ops are verified in full after each pass, which takes less time than most
passes.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # An optional value would consume the input file, so the bare flag gets its default value here.
    arguments = ["--verify-each=structure" if a == "--verify-each" else a for a in arguments]
    args = _argument_parser().parse_args(arguments)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback, plugins=args.load)


def _argument_parser() -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    add = parser.add_argument
    add("input_file", nargs="?", help="IR text or an ONNX model; standard input without it")
    add("-p", "--passes", default="", help="passes to run: 'a,b{option=1}'")
    add("-t", "--target", default="mlir", help="form of the output: mlir, llvm, ...")
    add("-o", "--output-file", help="file to write instead of standard output")
    add("-f", "--frontend", choices=("mlir", "onnx"), help="how to read the input")
    cli.add_shapes(parser)
    cli.add_limits(parser)
    cli.add_load(parser)
    add("--list-passes", action="store_true", help="print the available passes, and stop")
    add("--help-pass", metavar="NAME", help="print a pass's description and options, and stop")
    add("--list-targets", action="store_true", help="print the available targets, and stop")
    _add_text_arguments(parser.add_argument_group("text"))
    _add_watch_arguments(parser.add_argument_group("watching (stderr or files)"))
    _add_check_arguments(parser.add_argument_group("checking"))
    cli.add_common_arguments(parser)
    return parser


def _add_text_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--split-input-file", action="store_true", help="treat parts between '// -----' separately")
    add("--print-op-generic", action="store_true", help="print ops in the generic form")
    add("--print-debuginfo", action="store_true", help="print locations")
    add("--allow-unregistered-dialect", action="store_true", help="accept unknown ops")


def _add_watch_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--time-passes", action="store_true", help="print a table of the time of each pass")
    add("--dump-ir", metavar="FOLDER", help="write the IR after each pass to a folder")
    add(
        "--print-before", action="append", default=[], metavar="PASS", help="print IR before a pass"
    )
    add("--print-before-all", action="store_true", help="print IR before every pass")
    add("--print-after", action="append", default=[], metavar="PASS", help="print IR after a pass")
    add("--print-after-all", action="store_true", help="print IR after every pass")
    add("--print-after-change", action="store_true", help="print IR after passes that change it")
    add("--diff", action="store_true", help="print what each pass changed, op by op")
    add("--remarks", action="store_true", help="print the decisions of passes and their reasons")
    add(
        "--most-rewrites",
        metavar="N",
        help="stop rewrite patterns after N rewrites, or with PATTERN=N those of one "
        "pattern, and print the last one",
    )


def _add_check_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--disable-verify", action="store_true", help="do not verify the input and the result")
    add(
        "--verify-each",
        choices=("structure", "exec"),
        help="verify large modules too after each pass (=structure), or also run the module on "
        "inputs before and after each pass and compare (=exec)",
    )
    add("--input", action="append", default=[], metavar="NAME=@FILE.npy", help="input for =exec")
    add("--seed", type=cli.seed_number, default=0, help="seed of random inputs for =exec (0)")
    add("--rtol", type=float, default=5e-5, help="share of a value's magnitude for =exec (5e-5)")
    add("--atol", type=float, default=0.0, help="absolute tolerance for =exec (0)")
    add(
        "--only",
        action="append",
        default=[],
        metavar="@FUNCTION",
        help="function to run after each pass for =exec, instead of all; may be repeated",
    )
    add(
        "--exec-limit",
        type=cli.positive_seconds,
        metavar="SECONDS",
        help="seconds that a function may run for =exec, instead of an estimate from its work",
    )
    add(
        "--allow-unchecked",
        action="store_true",
        help="accept for =exec that the result cannot be run",
    )
    add(
        "--verify-diagnostics",
        action="store_true",
        help="check the errors that comments '// expected-error @+1 {{text}}' expect; where there "
        "are none, print verify errors to stdout, exit 0",
    )
    add("--parsing-diagnostics", action="store_true", help="print syntax errors to stdout, exit 0")


def _run(args: argparse.Namespace) -> int:
    passes = all_passes()
    if args.help_pass or args.list_passes or args.list_targets:
        print(_listing(args, passes))
        return 0
    parse_target_spec(args.target)
    pipeline = parse_pipeline(args.passes, passes)
    given = ImportOptions(
        parse_shapes(args.shape),
        dims=parse_dims(args.dim),
        limits=parse_limits(args.limit),
        follow_links=args.follow_links,
        # Dimensions of outputs may be given.
        rooms={} if args.dim else None,
    )
    _check_printed(args, pipeline)
    source = InputText.read(args.input_file, args.frontend, given)
    chunks = source.split() if args.split_input_file else (source,)
    texts: list[str] = []
    output = TextOutput(args.output_file)
    failed = False
    for index, chunk in enumerate(chunks):
        if expected := _expected(args, chunk):
            failed |= not _check_expected(args, chunk, expected, pipeline, output)
            continue
        number = index if len(chunks) > 1 else None
        try:
            texts.append(_run_chunk(args, chunk, pipeline, number, output))
        except (ParseError, TcoptError, DiagnosticException) as error:
            if _is_expected(args, error):
                texts.append(cli.describe(error) + "\n")
                continue
            if len(chunks) == 1:
                raise
            cli.report(PROG, error, show_traceback=args.traceback)
            failed = True
    output.write("// -----\n".join(texts))
    return 1 if failed else 0


def _listing(args: argparse.Namespace, passes: Mapping[str, PassFactory]) -> str:
    """List passes or targets, or return the help of a pass."""
    from tcopt.tools.passes.pass_help import pass_help, pass_list

    if args.help_pass:
        return pass_help(args.help_pass, passes)
    return pass_list(passes) if args.list_passes else "\n".join(sorted(all_targets()))


def _names_in(texts: Sequence[str]) -> set[str]:
    """Return the pass names in the values of an option."""
    return {name.strip() for text in texts for name in text.split(",")}


def _check_printed(args: argparse.Namespace, pipeline: tuple[ModulePass, ...]) -> None:
    """Raise InputError if a pass to print before or after is not in the pipeline."""
    running = {module_pass.name for module_pass in pipeline}
    for option, texts in (("before", args.print_before), ("after", args.print_after)):
        for name in sorted(_names_in(texts) - running):
            listed = ", ".join(sorted(running)) or "none"
            hint = suggest(name, running) or f"passes that run are {listed}"
            raise InputError(f"--print-{option}: no pass '{name}' runs", hint=hint)


def _check_expected(
    args: argparse.Namespace,
    source: InputText,
    expected: list[Expected],
    passes: tuple[ModulePass, ...],
    output: TextOutput,
) -> bool:
    """Whether a part of a file fails as its comments expect; differences go to stderr."""
    error: Exception | None = None
    try:
        _run_chunk(args, source, passes, None, output)
    except (ParseError, TcoptError, DiagnosticException) as raised:
        error = raised
    found = complaints(expected, error)
    for text in found:
        print(f"{PROG}: {source.name}: {text}", file=sys.stderr)
    return not found


def _expected(args: argparse.Namespace, source: InputText) -> list[Expected]:
    """Return the errors that the comments of a part of a file expect."""
    if not args.verify_diagnostics or source.frontend != "mlir":
        return []
    try:
        return expected_errors(source.data.decode(errors="replace"))
    except ValueError as error:
        raise InputError(f"{source.name}: {error}") from None


def _is_expected(args: argparse.Namespace, error: Exception) -> bool:
    if isinstance(error, ParseError):
        return args.parsing_diagnostics
    return args.verify_diagnostics


def _run_chunk(
    args: argparse.Namespace,
    source: InputText,
    passes: tuple[ModulePass, ...],
    number: int | None,
    output: TextOutput,
) -> str:
    ctx = new_context(allow_unregistered=args.allow_unregistered_dialect)
    options = PrintOptions(args.print_op_generic, args.print_debuginfo)
    module = source.parse(ctx, options.resources)
    if not args.disable_verify:
        verify(module)
    limited = limit_rewrites(args.most_rewrites) if args.most_rewrites else nullcontext()
    reported = print_remarks() if args.remarks else nullcontext()
    try:
        with limited as counter, reported:
            run_passes(ctx, module, passes, _instruments(args, options, number))
        if counter is not None:
            print(f"// {counter}", file=sys.stderr)
        if passes and not args.disable_verify:
            _verify_result(module, passes)
    except Exception as error:
        if args.disable_verify or args.verify_each or len(passes) < 2:
            raise
        raise blame(ctx, partial(source.parse, ctx), passes, error) from error
    with output.naming_weights(module):
        return emit(ctx, module, args.target, options)


def _verify_result(module: ModuleOp, passes: tuple[ModulePass, ...]) -> None:
    if len(passes) == 1:
        VerifyEach().after(0, passes[0], module)
    else:
        verify(module)


def _instruments(
    args: argparse.Namespace, options: PrintOptions, number: int | None
) -> list[Instrument]:
    """Return the requested instruments; the timer is last, so that it is closest to the pass."""
    show = partial(print_module, options=options)
    found: list[Instrument] = []
    if args.verify_each == "exec":
        from tcopt.tools.execution.exec_check import ExecCheck

        found.append(
            ExecCheck(
                args.input,
                args.seed,
                args.rtol,
                args.atol,
                args.allow_unchecked,
                args.exec_limit,
                [name.removeprefix("@") for name in args.only],
            )
        )
    if not args.disable_verify or args.verify_each:
        found.append(VerifyEach(None if args.verify_each else _VERIFIED_OPS))
    if args.diff:
        found.append(PrintDiff())
    if args.print_before or args.print_before_all:
        before = _names_in(args.print_before)
        found.append(PrintBefore(None if args.print_before_all else before, show))
    if args.print_after or args.print_after_all:
        after = _names_in(args.print_after)
        found.append(PrintAfter(None if args.print_after_all else after, show))
    if args.print_after_change:
        found.append(PrintAfterChange(show))
    if args.dump_ir:
        folder = Path(args.dump_ir)
        found.append(DumpToFolder(folder if number is None else folder / f"part{number}", show))
    if args.time_passes:
        found.append(PassTimer())
    return found


if __name__ == "__main__":
    sys.exit(main())
