"""`tcopt-bench`: time a model, compare it with other runtimes, and profile its kernels."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tcopt.compiler.tuned import lock_beside
from tcopt.support.errors import InputError
from tcopt.support.files.access import write_output
from tcopt.tools.command_line import cli
from tcopt.tools.command_line.inputs import read_arrays
from tcopt.tools.compiling import compile_arguments, print_extents

if TYPE_CHECKING:
    from tcopt.backends.accelerator.report import ProgramReport
    from tcopt.runtime import Model
    from tcopt.runtime.profile import TimedKernel
    from tcopt.tools.benchmarking.measure import BenchSettings

PROG = "tcopt-bench"

Feeds = Mapping[str, NDArray[Any]]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    args = _argument_parser().parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback, plugins=args.load)


def _argument_parser() -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    add = parser.add_argument
    add("model", help="an ONNX model, or a text (.mlir) of programs of an accelerator")
    add("--target", default="cpu", help="target to compile for (cpu)")
    cli.add_accuracy(parser)
    cli.add_limits(parser)
    cli.add_inputs(parser)
    cli.add_insert(parser)
    cli.add_cache(parser)
    cli.add_tuned(parser)
    add("--random-weights", action="store_true", help="replace the weights by random values")
    add("--threads", type=int, nargs="+", default=[1], help="numbers of threads to run on (1)")
    add(
        "--rounds",
        type=int,
        default=10,
        help="interleaved runs per runtime, runs of a profile (10)",
    )
    add("--peers", nargs="*", metavar="PEER", help="runtimes to compare with (those installed)")
    add("--rtol", type=float, default=1e-3, help="accepted difference / output range (1e-3)")
    add(
        "--tokens",
        metavar="PROMPT,COUNT",
        help="for a decoder with a cache: time a prompt of PROMPT tokens and COUNT tokens after it",
    )
    add("--memory", action="store_true", help="measure peak memory of compile and run")
    add("--json", metavar="FILE.json", help="write all measurements")
    add("--profile", action="store_true", help="print the time of each kernel call instead")
    add("--by-kernel", action="store_true", help="in the profile, sum the calls of each kernel")
    add(
        "--least",
        action="store_true",
        help="show minimum times instead of medians, for busy machines",
    )
    add("--rows", type=int, default=30, help="entries of the profile (30)")
    add(
        "--trace",
        metavar="FILE.json",
        help="write a Chrome trace of profiled runs, or of an accelerator's programs",
    )
    cli.add_load(parser)
    cli.add_common_arguments(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    from tcopt.tools.benchmarking.measure import measure
    from tcopt.tools.command_line.progress import CompileProgress

    if args.model.endswith(".mlir"):
        return _programs(args)
    if args.tokens:
        return _tokens(args)
    source = _source(args)
    given = read_arrays(args.input)
    settings = _settings(args, given)
    with CompileProgress() as progress:
        report, model, feeds = measure(source, settings, given, progress)
    print(f"compiled in {progress.summary()}")
    print_extents(model, feeds)
    passed = True
    if report["runs"]:
        passed = _show(args, report, settings)
    if args.memory:
        from tcopt.tools.benchmarking.memory import peak_memory

        report["peak_bytes"] = peak_memory(source, args.target, settings.options, feeds)
        peaks = report["peak_bytes"].items()
        print("peak memory: " + ", ".join(f"{what} {size / 1e6:.0f} MB" for what, size in peaks))
    if args.profile or args.trace:
        report["profiles"] = [_profile(args, model, feeds, threads) for threads in args.threads]
    if args.json:
        from tcopt.tools.benchmarking.machine import machine_facts

        text = json.dumps({"machine": machine_facts(), args.model: report}, indent=1)
        write_output(args.json, text)
    return 0 if passed else 1


def _programs(args: argparse.Namespace) -> int:
    """Report cycles and stalls of an accelerator's programs, and write a trace."""
    from tcopt.tools.benchmarking.accelerator import reports_in, write_traces

    reports = reports_in(Path(args.model), args.target)
    for report in reports:
        print(report)
    if args.trace:
        write_traces(args.trace, reports)
        print(f"{args.trace}: {len(reports)} programs")
    return 0


def _tokens(args: argparse.Namespace) -> int:
    """Time a decoder."""
    from tcopt.tools.benchmarking.sides import check_peers, installed_peers
    from tcopt.tools.benchmarking.tokens import measure_tokens, prompt_and_count
    from tcopt.tools.execution.decoder import Decoder, DecoderNames

    prompt, count = prompt_and_count(args.tokens)
    peers = installed_peers() if args.peers is None else check_peers(args.peers)
    options = {"target": args.target, "accuracy": args.accuracy}
    names = DecoderNames.of_model(args.model)
    decoder = Decoder(args.model, names, context=prompt + count, chunk=prompt, **options)
    for threads in args.threads:
        print(f"{prompt} and {count} tokens, threads: {threads}")
        own = {"threads": threads, "peers": peers, "seed": args.seed}
        for times in measure_tokens(args.model, decoder, prompt, count, **own):
            print(times.row(prompt))
    return 0


def _settings(args: argparse.Namespace, given: Feeds) -> BenchSettings:
    from tcopt.tools.benchmarking.measure import BenchSettings
    from tcopt.tools.benchmarking.sides import check_peers, installed_peers

    if args.rounds < 1 or min(args.threads) < 1:
        raise InputError("--rounds and --threads must be at least 1")
    peers = installed_peers() if args.peers is None else check_peers(args.peers)
    return BenchSettings(
        # A profile has its own clocks, so nothing else is timed.
        threads=[] if args.profile or args.trace else args.threads,
        rounds=args.rounds,
        peers=peers,
        target=args.target,
        options=compile_arguments(args, given) | {"plugins": args.load} | _tuning(args),
        rtol=args.rtol,
        seed=args.seed,
    )


def _tuning(args: argparse.Namespace) -> dict[str, Any]:
    """Return the tuning options; with random weights, the lock file is still the model's."""
    wanted = cli.wanted_tuning(args)
    if wanted["tuned"] is True and args.random_weights:
        beside = lock_beside(args.model)
        wanted["tuned"] = str(beside) if beside.is_file() else True
    return wanted


def _source(args: argparse.Namespace) -> str | bytes:
    if not Path(args.model).is_file():
        raise InputError(f"there is no file '{args.model}'")
    if not args.random_weights:
        return args.model
    import onnx

    from tcopt.frontends.onnx.building.random_weights import randomize_weights

    return randomize_weights(onnx.load(args.model), args.seed).SerializeToString()


def _show(args: argparse.Namespace, report: dict[str, Any], settings: BenchSettings) -> bool:
    """Print the comparison; return whether all results are close to the first peer's."""
    from tcopt.tools.benchmarking.report import comparison_table

    table = comparison_table({Path(args.model).stem: report}, settings.peers, least=args.least)
    print(table)
    for run in report["runs"]:
        for name, reason in run.get("failed", {}).items():
            print(f"{name}: {reason}")
        for output in run["accuracy"]:
            if not output["passed"]:
                print(
                    f"results DIFFER from {settings.peers[0]}'s by {output['relative']:.2g} of "
                    f"their range on {run['threads']} threads, --rtol is {args.rtol:g}"
                )
                return False
    return True


def _profile(args: argparse.Namespace, model: Model, feeds: Feeds, threads: int) -> dict[str, Any]:
    from tcopt.tools.profile_table import profile_text

    model.threads = threads
    profile = model.profile(feeds, args.rounds)
    if args.profile:
        shown = profile.least() if args.least else profile
        print(profile_text(shown, by_kernel=args.by_kernel, rows=args.rows))
    reports = _accelerator_reports(model, profile.kernels)
    for report in reports if args.profile else ():
        print(f"{report.title}: {report.summary()}")
    if args.trace:
        trace = profile.chrome_trace()
        text = f"{args.trace}: {profile.runs} runs of {len(profile.kernels)} kernel calls"
        if reports:
            from tcopt.tools.benchmarking.accelerator import trace_of

            trace["traceEvents"] += trace_of(reports, first=max(_processes(trace)) + 1)
            text += f", {len(reports)} programs of an accelerator, 1 us a cycle"
        write_output(args.trace, json.dumps(trace))
        print(text)
    return profile.as_json()


def _accelerator_reports(model: Model, kernels: Sequence[TimedKernel]) -> list[ProgramReport]:
    """Return reports of the accelerator programs called in a profile."""
    from tcopt.runtime.program import Program

    program = model.program
    if not isinstance(program, Program) or not program.calls:
        return []
    from tcopt.tools.benchmarking.accelerator import reports_of

    return list(reports_of(program, kernels))


def _processes(trace: Mapping[str, Any]) -> list[int]:
    return [0, *(event.get("pid", 0) for event in trace["traceEvents"])]


if __name__ == "__main__":
    sys.exit(main())
