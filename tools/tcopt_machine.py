"""`tcopt-machine`: measure the facts of this machine, and print them as a target.

    tcopt-machine                                    # takes a few seconds
    tcopt-compile model.onnx --target "$(tcopt-machine)" -o model.tcm

Cache sizes, cores and instruction sets are those that the operating system reports. Rates and
latencies are measured with small kernels, compiled like any other. Cost models that choose
schedules and layouts use these facts, so that a new CPU needs no entry of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from tcopt.backends.llvm.machine.host import host_target
from tcopt.dialects.target import CpuTargetAttr
from tcopt.tools.benchmarking.machine_measure import MachineMeasure, Measured
from tcopt.tools.command_line import cli

PROG = "tcopt-machine"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    args = _parser().parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback)


def _parser() -> cli.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--seconds",
        type=cli.positive_seconds,
        default=0.5,
        metavar="S",
        help="time for each of a dozen kernels; longer if other programs run (0.5)",
    )
    parser.add_argument("--json", action="store_true", help="print facts and unrounded rates")
    cli.add_common_arguments(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    machine = host_target()
    if (load := _load()) > machine.cores / 4:
        message = f"other programs run (load {load:.1f}): rates are too low"
        print(f"{PROG}: warning: {message}", file=sys.stderr)
    measured = MachineMeasure(machine, args.seconds).measure()
    target = measured.target(machine)
    text = str(CpuTargetAttr.of(target))
    print(_json(text, target.facts(), measured) if args.json else text)
    return 0


def _load() -> float:
    """Return the average number of programs that run; 0 if it is unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _json(target: str, facts: dict[str, str | int], measured: Measured) -> str:
    rates = {name: round(rate, 2) for name, rate in asdict(measured).items()}
    return json.dumps({"target": target, "facts": facts, "measured": rates}, indent=2)


if __name__ == "__main__":
    sys.exit(main())
