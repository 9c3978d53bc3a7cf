"""Layers, products and networks on a GPU, with PyTorch, cuDNN, cuBLAS and Triton where they are.

    python benchmarks/gpu.py                          # everything, on the CUDA device
    python benchmarks/gpu.py --minutes 10 --resume    # the most important first; go on later
    python benchmarks/gpu.py --filter 'networks/|layers/C7' --output gpu.jsonl
    python benchmarks/gpu.py --target opencl          # the OpenCL device, alone
    python benchmarks/gpu.py --report                 # only write the page of what was measured

Each row is written as soon as it is measured, an error as well, and at the end the page `gpu.md`
next to the rows. Times are medians over rounds of back-to-back runs between two events of the
device, with inputs and results in its memory; on CUDA all sides replay graphs, of several runs if
these are short. Results are compared with onnxruntime, or with PyTorch in f32. The steps on a
machine with a card are in docs/benchmarking.md.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from gpus.cases import items, small_items
from gpus.measuring import MOST_RUNS, DeviceLostError, Settings, measure_all
from gpus.peers import Peers, find_peers
from gpus.roofs import GROUP, measure_roofs
from gpus.rows import Rows, read_rows
from gpus.supervise import FINISHED, LOST, PATIENCE, note, supervise
from gpus.tables import page
from tcopt.runtime.device.interface import Device
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.access import write_output
from tcopt.support.registries.target_registry import find_target
from tcopt.targets.launched import LaunchedTarget
from tcopt.tools.benchmarking.machine import machine_facts
from tcopt.tools.command_line.cli import ArgumentParser, run_tool

PROG = "gpu.py"
MOST_PROCESSES = 4
SMALL_RUNS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    args = _parser().parse_args(argv)
    return run_tool(PROG, partial(_run, args))


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(PROG, (__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--target", default="cuda", help="cuda, opencl, or a named one such as cuda:sm_90 (cuda)")
    add("--filter", default="", help="a regular expression for rows, group/case/type/batch/variant")
    add("--output", type=Path, default=Path("gpu.jsonl"), help="the rows (gpu.jsonl)")
    add("--resume", action="store_true", help="keep the rows that the file has")
    add("--retry", action="store_true", help="with --resume, measure rows with errors again")
    add("--minutes", type=float, help="time limit")
    add("--rounds", type=int, default=7, help="rounds, of which the median is taken (7)")
    add("--processes", type=int, help="processes that compile ahead (a quarter of the cores)")
    add("--patience", type=float, default=PATIENCE, help=f"seconds for one row ({PATIENCE:g})")
    add("--report", action="store_true", help="only write the page of the rows that there are")
    # Tiny cases, and the options of the process that measures.
    add("--small", action="store_true", help=argparse.SUPPRESS)
    add("--until", type=float, help=argparse.SUPPRESS)
    add("--child", action="store_true", help=argparse.SUPPRESS)
    return parser


def _run(args: argparse.Namespace) -> int:
    if args.child:
        return measure(args)
    if args.report:
        if not args.output.exists():
            raise InputError(f"there is no '{args.output}'", hint="measure first")
        code = FINISHED
    else:
        # The device belongs to the child alone; this process only looks after it.
        Rows(args.output, resume=args.resume, retry=args.retry)
        code = supervise(_command(args), args.output, args.patience)
    if rows := read_rows(args.output):
        target = args.output.with_suffix(".md")
        write_output(target, page(rows))
        print(f"rows: {args.output}; page: {target}")
    return code


def _command(args: argparse.Namespace) -> list[str]:
    """The measuring process, which resumes."""
    command = [sys.executable, __file__, "--child", "--resume", "--target", args.target]
    command += ["--filter", args.filter, "--output", str(args.output)]
    command += ["--rounds", str(args.rounds), "--patience", str(args.patience)]
    if args.processes is not None:
        command += ["--processes", str(args.processes)]
    if args.minutes is not None:
        command += ["--until", str(time.time() + 60 * args.minutes)]
    return [*command, "--small"] if args.small else command


def measure(args: argparse.Namespace) -> int:
    """Measure in this process; returns an exit code for `supervise`."""
    try:
        kind, machine = find_target(args.target)
        if not isinstance(kind, LaunchedTarget):
            raise InputError(f"target {kind.name} has no device")
        device = kind.device()
        attribute = kind.attribute(machine)
    except TcoptError as error:
        print(f"no device to measure on: {error}", file=sys.stderr)
        return 1
    # Compiling processes have no device that they could ask for its architecture.
    named = (name for name in kind.machines if kind.attribute(name) == attribute)
    target = args.target if machine else f"{kind.name}:{next(named)}"
    peers = find_peers() if kind.name == "cuda" else Peers()
    rows = Rows(args.output, resume=args.resume)
    rows.check_machine(_facts(device, target, peers))
    processes = args.processes
    if processes is None:
        # The device of OpenCL may be the CPU.
        cores = os.cpu_count() or 1
        processes = min(max(cores // 4, 1), MOST_PROCESSES) if kind.name == "cuda" else 0
    how = Settings(
        args.rounds,
        args.until,
        args.patience,
        processes,
        partial(note, args.output),
        partial(_is_lost, device),
        SMALL_RUNS if args.small else MOST_RUNS,
    )
    if args.until is None and args.minutes is not None:
        how = replace(how, until=time.time() + 60 * args.minutes)
    wanted = re.compile(args.filter)
    every = small_items() if args.small else items()
    chosen = [each for each in every if wanted.search(each.key(""))]
    try:
        if wanted.search(GROUP):
            measure_roofs(device, attribute, rows, peers, how, small=args.small)
        done = measure_all(chosen, target, rows, peers, how)
    except DeviceLostError as error:
        print(f"{error}: the device needs a new process", file=sys.stderr, flush=True)
        return LOST
    if not done:
        print("the time is over; --resume goes on", flush=True)
    return FINISHED


def _facts(device: Device, target: str, peers: Peers) -> dict[str, Any]:
    found: dict[str, Any] = {"device": device.name, "target": target, **machine_facts()}
    if peers.torch is not None:
        versions = {"torch": peers.torch.__version__, "cuda": peers.torch.version.cuda}
        versions["cudnn"] = peers.torch.backends.cudnn.version()
        found["peers"] = versions
    return found


def _is_lost(device: Device) -> bool:
    """Return whether the device refuses even a copy."""
    try:
        buffer = device.allocate(4)
        device.write(np.zeros(1, np.float32), buffer)
        device.read(buffer, np.zeros(1, np.float32))
    except TcoptError:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
