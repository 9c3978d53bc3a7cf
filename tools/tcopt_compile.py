"""`tcopt-compile`: compile an ONNX model, or stop at a level and print its IR."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tcopt.support.errors import InputError
from tcopt.support.files.access import is_replaced
from tcopt.support.pipelines.phases import pipeline_text, up_to
from tcopt.tools.command_line import cli
from tcopt.tools.command_line.inputs import read_arrays
from tcopt.tools.compiling import compile_model, options_of

PROG = "tcopt-compile"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    args = _argument_parser().parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback, plugins=args.load)


def _argument_parser() -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    add = parser.add_argument
    add("model", nargs="?", help="an ONNX model")
    add("--target", default="cpu", help="target to compile for: cpu, opencl, cuda:sm_80 ... (cpu)")
    cli.add_accuracy(parser)
    cli.add_limits(parser)
    add("-o", "--output-file", help="file to write: model.tcm, or IR with --compile-to")
    add("--kit", action="store_true", help="write a C library into the folder -o: docs/deploy.md")
    add(
        "--also",
        action="append",
        default=[],
        metavar="TARGET",
        help="with --kit: another CPU that the library has code for, such as cpu:haswell",
    )
    add(
        "--kit-weights",
        choices=("embedded", "file"),
        default="embedded",
        help="with --kit: weights in the library or in a file of their own (embedded)",
    )
    add(
        "--freestanding",
        action="store_true",
        help="with --kit: a runtime without a C library, files and threads",
    )
    add("--compile-to", metavar="PHASE", help="stop after a phase and print its IR")
    add("--print-pipeline", action="store_true", help="print the passes after import, and stop")
    cli.add_shapes(parser)
    cli.add_deciding_inputs(parser)
    add(
        "--donate",
        action="append",
        default=[],
        metavar="INPUT=OUTPUT",
        help="the output may be computed in the memory of the input, see docs/states.md",
    )
    add("--time-passes", action="store_true", help="with --compile-to: time each pass (stderr)")
    add(
        "--explain",
        nargs="?",
        const="text",
        choices=("text", "json"),
        help="print the decisions for each kernel and why; a model is written only with -o",
    )
    add(
        "--explain-share",
        type=float,
        default=0.01,
        metavar="PART",
        help="kernels with a smaller part of the work are not listed in the text (0.01)",
    )
    add(
        "--ptxas",
        action="store_true",
        help="for CUDA: print the resources of each kernel, such as registers; a model is "
        "written only with -o",
    )
    cli.add_insert(parser)
    cli.add_cache(parser)
    cli.add_tuned(parser)
    cli.add_load(parser)
    cli.add_common_arguments(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    if args.print_pipeline:
        phases = options_of(args).phases
        shown = phases if args.compile_to is None else up_to(phases, args.compile_to)
        print(pipeline_text(shown))
        return 0
    if args.model is None:
        raise InputError("no model given", hint=f"{PROG} model.onnx -o model.tcm")
    if not Path(args.model).is_file():
        raise InputError(f"there is no file '{args.model}'")
    if args.compile_to is not None:
        return _print_level(args)
    if args.explain is not None or args.ptxas:
        return _describe(args)
    return _compile_kit(args) if args.kit else _compile(args)


def _describe(args: argparse.Namespace) -> int:
    """Print facts of the compiled model, which is written only if a file is named."""
    from tcopt.tools.explain_text import explanation_text
    from tcopt.tools.ptxas_table import resources_text

    model, _ = compile_model(args, read_arrays(args.input))
    if args.explain == "json":
        print(json.dumps(model.explain().as_json(), indent=1))
    elif args.explain is not None:
        print(explanation_text(model.explain(), share=args.explain_share))
    else:
        print(resources_text(model))
    if args.output_file:
        model.save(args.output_file)
    return 0


def _compile(args: argparse.Namespace) -> int:
    from tcopt.support.remarks import collect_slow

    output = Path(args.output_file or Path(args.model).with_suffix(".tcm").name)
    with collect_slow() as slow:
        model, progress = compile_model(args, read_arrays(args.input))
        model.save(str(output))
    for each in dict.fromkeys(slow):
        print(f"slow kernel: {each.where or each.subject}: {each.message}", file=sys.stderr)
    taken = f"for {args.target} in {progress.summary()}"
    if is_replaced(output):
        print(f"{output}: {output.stat().st_size / 1e6:.1f} MB {taken}")
    else:
        # Standard output may carry the model, so the message goes to stderr.
        print(f"{output}: {taken}", file=sys.stderr)
    return 0


def _compile_kit(args: argparse.Namespace) -> int:
    from tcopt.runtime.kit.export import export_kit, kit_name

    folder = Path(args.output_file or Path(args.model).stem)
    values = read_arrays(args.input)
    targets = (args.target, *args.also)
    each = (argparse.Namespace(**{**vars(args), "target": target}) for target in targets)
    models = [compile_model(one, values)[0] for one in each]
    name = kit_name(Path(args.model).stem)
    export_kit(models, folder, name=name, weights=args.kit_weights, freestanding=args.freestanding)
    print(f"{folder}: the library {name} for {', '.join(targets)}")
    return 0


def _print_level(args: argparse.Namespace) -> int:
    from xdsl.dialects.builtin import ModuleOp

    from tcopt.compiler.donations import donate
    from tcopt.compiler.driver import lower
    from tcopt.compiler.passes import passes_of, shared_context
    from tcopt.frontends.onnx.importer import import_first_stage
    from tcopt.support.ir.verify import verify
    from tcopt.tools.passes.driver import PrintOptions, blame, emit
    from tcopt.tools.passes.instruments import Instrument, PassTimer
    from tcopt.tools.passes.weight_files import TextOutput

    options = options_of(args, read_arrays(args.input))
    phases = up_to(options.phases, args.compile_to)
    ctx = shared_context()

    def read() -> ModuleOp:
        module = import_first_stage(args.model, options)
        if options.kind.updates_inputs:
            donate(module, options.donate)
        return module

    module = read()
    instruments: list[Instrument] = [PassTimer()] if args.time_passes else []
    try:
        lower(module, phases, instruments)
        verify(module)
    except Exception as error:
        passes = [each for phase in phases for each in passes_of(phase.passes)]
        raise blame(ctx, read, passes, error) from error
    output = TextOutput(args.output_file)
    with output.naming_weights(module):
        text = emit(ctx, module, _form(args.compile_to), PrintOptions())
    output.write(text)
    return 0


def _form(phase: str) -> str:
    return "llvm" if phase == "code" else "mlir"


if __name__ == "__main__":
    sys.exit(main())
