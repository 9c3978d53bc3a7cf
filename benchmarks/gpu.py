"""Layers and models on a GPU, beside PyTorch with cuDNN and cuBLAS on CUDA devices.

    python benchmarks/gpu.py                      # the CUDA device, PyTorch beside it if installed
    python benchmarks/gpu.py --target opencl      # the OpenCL device, alone
    python benchmarks/gpu.py --filter 'C7|dqn' --output gpu.json

Times are medians over rounds of back-to-back runs between two events of the device, inputs and
results staying in its memory. On CUDA both sides replay a graph of the whole run. PyTorch computes
in fp32 with TF32 off, and in fp16.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx.parser
from onnx import ModelProto

sys.path.insert(0, str(Path(__file__).parent))

import tcopt
from case import Case
from suites import conv, depthwise, matmul, models
from tcopt.compiler.driver import Imported, compile_model
from tcopt.compiler.pipeline import pipeline
from tcopt.compiler.report import Report
from tcopt.frontends.onnx.building.network import Network
from tcopt.schedules.passes import schedule
from tcopt.schedules.rules import rule as rules
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files import write_output
from tcopt.support.phases import configured
from tcopt.support.target_registry import find_target
from tcopt.targets.launched import LaunchedTarget

MODELS = ("resnet18", "mobilenet_v2", "dqn", "lstm_lm", "dcgan_generator", "bert_base")
COOPERATIVE = "gpu-shared-tile"
"""The rule by which threads of a block fetch together."""


def _square(size: int) -> ModelProto:
    net = Network("square")
    x, y = net.input("x", [size, size]), net.input("y", [size, size])
    return net.model(**{net.add("MatMul", x, y): [size, size]})


def _batched(left: Sequence[int], right: Sequence[int]) -> ModelProto:
    net = Network("batched")
    x, y = net.input("x", left), net.input("y", right)
    return net.model(**{net.add("MatMul", x, y): [*left[:-1], right[-1]]})


def _bytes_product(size: int) -> ModelProto:
    """A product of matrices of bytes, in 32 bits."""
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
bytes (int8[{size}, {size}] x, int8[{size}, {size}] y) => (int32[{size}, {size}] z) {{
  z = MatMulInteger(x, y)
}}""")


@dataclass(frozen=True)
class Variant:
    """A case under changed rules.

    Attributes:
        base: the name of the case it is compared with.
        without: a schedule rule that is not asked.
        options: of passes, by their names.
    """

    case: Case
    base: str
    without: str = ""
    options: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


CASES = [
    *conv.CASES,
    *depthwise.CASES,
    *(Case(f"square_{n}", partial(_square, n), f"{n}x{n} by {n}x{n}") for n in (1024, 2048)),
    *(
        Case(f"int8_{n}", partial(_bytes_product, n), f"bytes, {n}x{n} by {n}x{n}")
        for n in (1024, 2048)
    ),
    Case(
        "batched_17", partial(_batched, [512, 17, 128], [512, 128, 17]), "512 of 17x128 by 128x17"
    ),
    *(case for case in matmul.CASES if case.name.startswith("attention")),
    *(case for case in models.CASES if case.name in MODELS),
]
_BY_NAME = {case.name: case for case in CASES}
VARIANTS = [
    *(Variant(_BY_NAME[f"square_{n}"], f"square_{n}", without=COOPERATIVE) for n in (1024, 2048)),
    *(
        Variant(_BY_NAME[name], name, options={"fuse-ops": {"max_ops": 1}})
        for name in ("resnet18", "mobilenet_v2", "lstm_lm", "dqn")
    ),
]


@dataclass
class Entry:
    """What was measured of a case, in microseconds; an error has a text instead."""

    name: str
    what: str
    ours: float | None = None
    torch_fp32: float | None = None
    torch_fp16: float | None = None
    difference: float | None = None
    failed: dict[str, str] = field(default_factory=dict)


def main() -> int:
    args = _arguments()
    try:
        kind, _ = find_target(args.target)
        if not isinstance(kind, LaunchedTarget):
            raise InputError(f"target {kind.name} has no device")
        device = kind.device()
    except TcoptError as error:
        print(f"no device to measure on: {error}", file=sys.stderr)
        return 1
    torch = _torch() if kind.name == "cuda" else None
    print(f"{device.name}; {'PyTorch ' + torch.__version__ if torch else 'no peers'}")
    wanted = re.compile(args.filter)
    entries = [_show(_measure(case, args, torch)) for case in CASES if wanted.search(case.name)]
    for variant in VARIANTS:
        if wanted.search(variant.case.name):
            entries.append(_show(_measure_variant(variant, args)))
    if args.output:
        facts = {"device": device.name, "entries": [asdict(entry) for entry in entries]}
        write_output(args.output, json.dumps(facts, indent=1))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--target", default="cuda", help="cuda, opencl, or a named one such as cuda:sm_90 (cuda)")
    add("--filter", default="", help="a regular expression for names of cases")
    add("--runs", type=int, default=50, help="runs one after the other in a round (50)")
    add("--rounds", type=int, default=7, help="rounds, of which the median is shown (7)")
    add("--output", metavar="FILE.json", help="write what was measured")
    return parser.parse_args()


def _torch() -> Any:
    """PyTorch with a CUDA device and TF32 off, if it is there."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def _measure(case: Case, args: argparse.Namespace, torch: Any) -> Entry:
    entry = Entry(case.name, case.what)
    model = case.build()
    feeds: dict[str, np.ndarray] = {}
    try:
        compiled = tcopt.compile(model, args.target)
        feeds = _feeds(compiled.inputs)
        session = compiled.session()
        ours = session.run(list(feeds.values()))
        entry.ours = _median(session.seconds, args)
    except TcoptError as error:
        entry.failed["tcopt"] = str(error)
        return entry
    for half in (False, True) if torch else ():
        name = "torch_fp16" if half else "torch_fp32"
        try:
            seconds, results = _replay(torch, model, feeds, half)
            setattr(entry, name, _median(seconds, args))
            if not half:
                entry.difference = max(map(_difference, ours, results))
        except (KeyError, RuntimeError) as error:
            entry.failed[name] = str(error)
    return entry


def _measure_variant(variant: Variant, args: argparse.Namespace) -> Entry:
    what = f"without {variant.without}" if variant.without else "without fusion"
    entry = Entry(f"{variant.case.name} {what}", variant.case.what)
    phases = pipeline(args.target)
    for name, options in variant.options.items():
        phases = configured(phases, name, **options)
    try:
        with _rule_left_out(variant.without):
            model = Imported(variant.case.build().SerializeToString(), {}, {})
            program = compile_model(model, phases, None, 0, Report(None))
        session = program.session()
        session.run(list(_feeds(program.inputs).values()))
        entry.ours = _median(session.seconds, args)
    except TcoptError as error:
        entry.failed["tcopt"] = str(error)
    return entry


@contextmanager
def _rule_left_out(name: str) -> Iterator[None]:
    """Ask all schedule rules but one."""
    every = rules.rules_for
    schedule.rules_for = lambda kind: tuple(r for r in every(kind) if r.name != name)
    try:
        yield
    finally:
        schedule.rules_for = every


def _feeds(specs: Sequence[Any]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {}
    for spec in specs:
        if spec.dtype.kind == "f":
            feeds[spec.name] = rng.standard_normal(spec.shape).astype(spec.dtype)
        elif spec.dtype == np.int8:
            feeds[spec.name] = rng.integers(-127, 128, spec.shape, dtype=np.int8)
        else:
            feeds[spec.name] = np.ones(spec.shape, spec.dtype)
    return feeds


def _median(seconds: Callable[[int], float], args: argparse.Namespace) -> float:
    """Microseconds of a run, after a round that does not count."""
    seconds(args.runs)
    return median(seconds(args.runs) for _ in range(args.rounds)) * 1e6


def _replay(
    torch: Any, model: ModelProto, feeds: Mapping[str, np.ndarray], half: bool
) -> tuple[Callable[[int], float], list[np.ndarray]]:
    """How long PyTorch takes for so many replays of a graph of the model, and its results."""
    from torch_graph import TorchGraph

    network = TorchGraph(torch, model, half)
    tensors = {name: network.tensor(array) for name, array in feeds.items()}
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            network.run(tensors)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = network.run(tensors)

    def seconds(runs: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(runs):
            graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / runs

    graph.replay()
    return seconds, [result.float().cpu().numpy() for result in results]


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, as a part of the range of what is expected."""
    span = float(np.ptp(theirs)) or 1.0
    return float(np.abs(ours.astype(np.float64) - theirs).max()) / span


def _show(entry: Entry) -> Entry:
    parts = [f"{entry.name:40}"]
    for name in ("ours", "torch_fp32", "torch_fp16"):
        time = getattr(entry, name)
        if time is not None:
            beside = f" ({time / entry.ours:.2f}x)" if name != "ours" and entry.ours else ""
            parts.append(f"{name} {time:10.1f} us{beside}")
    if entry.difference is not None:
        parts.append(f"difference {entry.difference:.1e}")
    parts += [f"{name}: {reason}" for name, reason in entry.failed.items()]
    print("  ".join(parts), flush=True)
    return entry


if __name__ == "__main__":
    sys.exit(main())
