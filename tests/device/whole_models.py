"""Whole models on an OpenCL device and through ptxas: `make gpu-models`.

Each model is compiled for OpenCL and run, its outputs compared with onnxruntime's, or where it is
quantised with the exact integers' of its definition; and it is compiled for CUDA devices, for which
ptxas assembles its kernels. What came of it is written to docs/gpu_models.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from onnx import ModelProto

import tcopt
from models import convolutional, transformers
from models.checks import run_imported, run_reference
from models.light_models import LIGHT_MODELS, light_model, random_inputs
from models.quantized import output_step, quantized
from tcopt.backends.ptx.ptxas import KernelResources, assemble
from tcopt.runtime.device.opencl import opencl_device
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import Launch
from tcopt.support.errors import TcoptError

DOCUMENT = Path(__file__).parents[2] / "docs" / "gpu_models.md"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
FLOAT_TOLERANCE = 1e-4
"""Of an output's range; sums are added up in other orders."""
STEP_TOLERANCE = 1.01
"""Steps of the last quantisation; a step is a little more in floating point."""

QUANTIZED = {
    "resnet18 int8 QDQ": partial(quantized, kind="QDQ", per_channel=True),
    "resnet18 int8 QOperator": partial(quantized, kind="QOperator"),
}
MODELS: dict[str, Callable[[], ModelProto]] = {
    **{name: partial(light_model, name) for name in LIGHT_MODELS},
    "mobilenet_v2": convolutional.mobilenet_v2,
    "bert_block": partial(transformers.bert_block, 128, 768, 12, 1000),
    "resnet18": convolutional.resnet18,
    **{name: lambda make=make: make(convolutional.resnet18()) for name, make in QUANTIZED.items()},
}


@dataclass
class Run:
    """A model on an OpenCL device.

    Attributes:
        difference: from what is expected, in parts of the range, or in steps if it is quantised.
        compile, first, again: seconds to compile it, for the first run, which has the device's
            own compiler in it, and for another.
    """

    launches: int
    kernels: int
    difference: float
    compile: float
    first: float
    again: float


@dataclass
class Assembly:
    """The kernels of a model for a CUDA device.

    Attributes:
        registers: the most of a thread.
        shared: the most bytes of a block.
        spilling: kernels that keep a part of their registers in memory.
        dots: whether there are dot products of bytes.
        compile, ptxas: seconds.
    """

    kernels: int
    registers: int
    shared: int
    spilling: list[str]
    dots: bool
    compile: float
    ptxas: float


@dataclass
class Outcome:
    """What came of a model; what failed has a text."""

    run: Run | None = None
    assemblies: dict[str, Assembly] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Mapping) -> Outcome:
        run = Run(**facts["run"]) if facts["run"] else None
        return cls(run, {a: Assembly(**f) for a, f in facts["assemblies"].items()}, facts["failed"])


def run_on_device(model: ModelProto, is_quantized: bool) -> Run:
    """Compile a model for OpenCL, run it twice, and compare.

    Raises:
        TcoptError: it cannot be compiled or run.
        ValueError: its results differ from what is expected.
    """
    feeds = random_inputs(model, 5)
    start = time.perf_counter()
    compiled = tcopt.compile(model, "opencl")
    made = time.perf_counter()
    ours = compiled.run(feeds)
    ran = time.perf_counter()
    again = compiled.run(feeds)
    end = time.perf_counter()
    if any(not np.array_equal(a, b) for a, b in zip(ours, again, strict=True)):
        raise ValueError("a second run gives other results")
    expected = run_imported(model, feeds) if is_quantized else run_reference(model, feeds)
    unit = output_step(model) if is_quantized else None
    difference = max(_difference(a, b, unit) for a, b in zip(ours, expected, strict=True))
    if not difference <= (STEP_TOLERANCE if is_quantized else FLOAT_TOLERANCE):
        raise ValueError(f"results differ by {difference:.2g}")
    program = compiled.program
    assert isinstance(program, DeviceProgram)
    launches = sum(isinstance(step, Launch) for step in program.steps)
    times = made - start, ran - made, end - ran
    return Run(launches, len(program.sources), difference, *times)


def _difference(ours: np.ndarray, theirs: np.ndarray, unit: float | None) -> float:
    theirs = np.asarray(theirs)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        raise ValueError(f"{ours.dtype}{ours.shape} instead of {theirs.dtype}{theirs.shape}")
    unit = unit or max(float(np.ptp(theirs)), 1e-30)
    return float(np.abs(ours.astype(np.float64) - theirs).max()) / unit


def assemble_for(model: ModelProto, arch: str) -> Assembly:
    """Compile a model for a CUDA device, and let ptxas assemble its kernels.

    Raises:
        TcoptError: it cannot be compiled, or ptxas does not take it.
    """
    start = time.perf_counter()
    program = tcopt.compile(model, f"cuda:{arch}").program
    made = time.perf_counter()
    assert isinstance(program, DeviceProgram)
    found = [r for source in program.sources for r in assemble(source.text, arch)[1]]
    return _summary(found, program, made - start, time.perf_counter() - made)


def _summary(
    found: Sequence[KernelResources], program: DeviceProgram, compile: float, ptxas: float
) -> Assembly:
    return Assembly(
        kernels=len(found),
        registers=max((each.registers for each in found), default=0),
        shared=max((each.shared for each in found), default=0),
        spilling=[each.kernel for each in found if each.spill_stores or each.spill_loads],
        dots="dp4a" in program.source,
        compile=compile,
        ptxas=ptxas,
    )


def outcome_of(name: str, architectures: Sequence[str], outcome: Outcome, runs: bool) -> Outcome:
    """What comes of a model, where it is not known."""
    model = MODELS[name]()
    outcome.failed.clear()
    for arch in architectures:
        if arch in outcome.assemblies:
            continue
        try:
            outcome.assemblies[arch] = assemble_for(model, arch)
        except TcoptError as error:
            outcome.failed[arch] = str(error)
    if runs and outcome.run is None:
        try:
            outcome.run = run_on_device(model, name in QUANTIZED)
        except (TcoptError, ValueError) as error:
            outcome.failed["run"] = str(error)
    return outcome


_HEAD = """# Models on GPUs

Whole models through the pipeline of GPUs, with random weights: `make gpu-models` writes this page.

## On an OpenCL device

{device}.

*Difference* is the largest one, as a part of the range of onnxruntime's result; for quantised
models in steps of the last quantisation, from the exact integers of the model's definition. Seconds
are those of this compiler, of the first run, in which the device's compiler takes the kernels, and
of another run; they are for orientation, whatever else the machine did.

A row is of the day on which its model was last tried: a run with `--filter` leaves the others as
they were, and the device named above is that of the last one. No row says how fast a device is:
OpenCL here is the CPU, and no CUDA device was there.

| model | launches | kernels | difference | compile | first run | run |
|---|---|---|---|---|---|---|
"""

_PTX = """
## Through ptxas

Registers are the most that a thread of any kernel takes, shared the most bytes of a block.

| model | device | kernels | registers | shared | kernels that spill | dp4a | compile | ptxas |
|---|---|---|---|---|---|---|---|---|
"""


def document(outcomes: Mapping[str, Outcome], device: str) -> str:
    """The text of docs/gpu_models.md."""
    missing = [name for name in MODELS if name not in outcomes]
    return "".join(
        [
            _HEAD.format(device=device),
            *(f"| {name} | {_run_cells(o)} |\n" for name, o in outcomes.items()),
            f"\nNot tried when this was written: {', '.join(missing)}.\n" if missing else "",
            _PTX,
            *(row for name, o in outcomes.items() for row in _assembly_rows(name, o)),
        ]
    )


def _run_cells(outcome: Outcome) -> str:
    run = outcome.run
    if run is None:
        return f"{outcome.failed.get('run', 'not run').splitlines()[0]} | | | | |"
    seconds = f"{run.compile:.1f} s | {run.first:.1f} s | {run.again:.2f} s"
    return f"{run.launches} | {run.kernels} | {run.difference:.1e} | {seconds}"


def _assembly_rows(name: str, outcome: Outcome) -> Iterator[str]:
    for arch in ARCHITECTURES:
        made = outcome.assemblies.get(arch)
        if made is None:
            if arch in outcome.failed:
                yield f"| {name} | {arch} | {outcome.failed[arch].splitlines()[0]} | | | | | | |\n"
            continue
        spilling = ", ".join(made.spilling) or "none"
        seconds = f"{made.compile:.1f} s | {made.ptxas:.1f} s"
        yield (
            f"| {name} | {arch} | {made.kernels} | {made.registers} | {made.shared} | {spilling} | "
            f"{'yes' if made.dots else ''} | {seconds} |\n"
        )


def _write_document(outcomes: Mapping[str, Outcome]) -> None:
    ordered = {name: outcomes[name] for name in MODELS if name in outcomes}
    DOCUMENT.write_text(document(ordered, opencl_device().name))


def main() -> int:
    """Run what the command line asks for; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--filter", default="", help="only models whose name has this regex")
    add("--architectures", nargs="*", default=ARCHITECTURES, help="sm_75 sm_80 sm_90")
    add("--no-run", action="store_true", help="let ptxas alone take the models")
    add("--results", default="gpu_models.json", help="file that keeps what is known already")
    args = parser.parse_args()
    kept = Path(args.results)
    known = json.loads(kept.read_text()) if kept.exists() else {}
    outcomes = {name: Outcome.of(known[name]) for name in MODELS if name in known}
    wrong = False
    for name in MODELS:
        if not re.search(args.filter, name):
            continue
        start = outcomes.get(name, Outcome())
        outcomes[name] = outcome_of(name, args.architectures, start, not args.no_run)
        wrong |= bool(outcomes[name].failed)
        print(f"{name}: {outcomes[name]}", flush=True)
        kept.write_text(json.dumps({n: asdict(o) for n, o in outcomes.items()}, indent=1))
        _write_document(outcomes)
    _write_document(outcomes)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
