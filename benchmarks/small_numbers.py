"""Networks in 8-bit integers and in bf16: ours against onnxruntime, OpenVINO and our own float32.

    python benchmarks/small_numbers.py --models FOLDER --prepare      # once, some minutes
    python benchmarks/small_numbers.py --models FOLDER                # the tables, 1 and 2 threads
    python benchmarks/small_numbers.py --only resnet --threads 1 --seconds 4
    python benchmarks/small_numbers.py --kinds int8 --cpu haswell     # ours without VNNI
    python benchmarks/small_numbers.py --kinds bf16 --accuracy fast   # with rounded tiles

Each network is quantised twice, by onnxruntime's `quantize_static` and by `tcopt.quantize` (all
layers), to a model with QuantizeLinear and DequantizeLinear that all sides run. Models with random
weights are kept in a folder, so that a second run only measures. bf16 is an option of ours
(`precision="bf16"`) and of OpenVINO; onnxruntime has none on CPUs. With `--cpu` ours is compiled
for an older CPU, and compared with our own float32 alone: others use all features of this one.

Runs of a network's sides are interleaved in one process; times are medians, ratios those of each
round (`tcopt.support.processes.turns`). Errors are relative root mean squares from onnxruntime's
results in float32; a network of ours with a larger error than every other side is marked.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

import tcopt
from tcopt.frontends.onnx.building.examples import find_example_model
from tcopt.frontends.onnx.building.random_weights import randomize_weights
from tcopt.quantization.errors import ErrorSum
from tcopt.quantization.onnx_graph import open_graph
from tcopt.support.accuracy import ACCURACIES, DEFAULT, PRECISE
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.access import write_output
from tcopt.support.processes.turns import Times, speed, take_turns
from tcopt.tools.benchmarking.machine import machine_facts
from tcopt.tools.benchmarking.sides import BenchSide, installed_peers, load_peer
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from zoo import bert_base, efficientnet_b0, mobilenet_v2, resnet18, vgg16, vit_small, yolov8n

Feeds = Mapping[str, np.ndarray]
Row = dict[str, Any]

CALIBRATION = 3
"""Calibration runs of both quantisers."""
QUANTIZERS = ("onnxruntime", "tcopt")
FURTHER = 1.5
"""Errors within this factor count as equal: later layers amplify a value that rounds to another
step."""
_LEAST_ROUNDS, _MOST_ROUNDS = 4, 60


def _resnet50() -> ModelProto:
    made = randomize_weights(onnx.load(str(find_example_model("light_resnet50"))), 0)
    # onnxruntime does not treat weights that are also inputs as constants.
    weights = {weight.name for weight in made.graph.initializer}
    inputs = [info for info in made.graph.input if info.name not in weights]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    return made


@dataclass(frozen=True)
class Network:
    """A network, and the number formats in which it is measured."""

    build: Callable[[], ModelProto]
    kinds: tuple[str, ...]


NETWORKS = {
    "resnet18": Network(resnet18.build, ("int8", "bf16")),
    "resnet50": Network(_resnet50, ("int8", "bf16")),
    "mobilenet_v2": Network(mobilenet_v2.build, ("int8", "bf16")),
    "efficientnet_b0": Network(efficientnet_b0.build, ("int8",)),
    "yolov8n": Network(yolov8n.build, ("int8",)),
    "bert_base": Network(bert_base.build, ("int8", "bf16")),
    "vit_small": Network(vit_small.build, ("int8",)),
    "vgg16": Network(vgg16.build, ("bf16",)),
}


# Models


def feeds_of(model: ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Return seeded inputs: pictures for floats, small integers for tokens, ones for masks."""
    rng, weights = np.random.default_rng(seed), {w.name for w in model.graph.initializer}
    found: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        if info.name in weights:
            continue
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            found[info.name] = _picture(shape, rng)
        elif "mask" in info.name:
            found[info.name] = np.ones(shape, np.int64)
        else:
            found[info.name] = rng.integers(0, 1000, shape, dtype=np.int64)
    return found


def _picture(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Noise of several resolutions, so that adjacent pixels are similar as in photographs."""
    total = np.zeros(shape, np.float32)
    for step in (1, 8, 32):
        rows, columns = (-(-extent // step) for extent in shape[-2:])
        part = rng.standard_normal((*shape[:-2], rows, columns)).astype(np.float32)
        total += part.repeat(step, -2).repeat(step, -1)[..., : shape[-2], : shape[-1]]
    return total


class Models:
    """Networks in a folder, created if they are missing."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, name: str, quantizer: str | None = None) -> Path:
        """Return the file of a network, in floats or quantised."""
        path = self.folder / f"{name}.{quantizer or 'float32'}.onnx"
        if not path.is_file():
            start = time.perf_counter()
            self._make(name, quantizer, path)
            print(f"{path.name}: made in {time.perf_counter() - start:.0f} s", flush=True)
        return path

    def _make(self, name: str, quantizer: str | None, path: Path) -> None:
        if quantizer is None:
            made = NETWORKS[name].build()
        else:
            source = onnx.load(self.path(name))
            made = {"tcopt": _by_tcopt, "onnxruntime": _by_onnxruntime}[quantizer](source)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, made.SerializeToString())


def _by_tcopt(model: ModelProto) -> ModelProto:
    runs = [feeds_of(model, seed) for seed in range(CALIBRATION)]
    return tcopt.quantize(model, runs, plan=False, samples=1).model


def _by_onnxruntime(model: ModelProto) -> ModelProto:
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.runs = iter([feeds_of(model, seed) for seed in range(CALIBRATION)])

        def get_next(self) -> Feeds | None:
            return next(self.runs, None)

    logging.getLogger().setLevel(logging.ERROR)
    with TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / name) for name in ("real.onnx", "int.onnx"))
        # With batch normalisation folded, as its own preparation does.
        onnx.save(open_graph(model).model, source)
        quantize_static(
            source,
            target,
            Reader(),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(target)


# Measurements


@dataclass
class Measured:
    """Sides of a network: their times, and errors relative to the results in float32.

    Attributes:
        failed: errors of sides that did not load.
    """

    times: Mapping[str, Times]
    errors: Mapping[str, float]
    failed: Mapping[str, str]


def measure(
    sides: Mapping[str, Callable[[], BenchSide]], exact: Sequence[np.ndarray], seconds: float
) -> Measured:
    """Load all sides, and interleave their runs for some seconds."""
    loaded: dict[str, BenchSide] = {}
    failed: dict[str, str] = {}
    for name, load in sides.items():
        try:
            loaded[name] = load()
        except TcoptError as error:
            failed[name] = error.message
    runs = {name: side.run for name, side in loaded.items()}
    start = time.perf_counter()
    take_turns(runs, 1)
    one = time.perf_counter() - start
    rounds = min(max(int(seconds / one), _LEAST_ROUNDS), _MOST_ROUNDS)
    errors = {name: _error(side.outputs(), exact) for name, side in loaded.items()}
    return Measured(take_turns(runs, rounds), errors, failed)


def _error(outputs: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> float:
    found: list[float] = []
    for ours, theirs in zip(outputs, exact, strict=True):
        total = ErrorSum()
        total.add(ours.reshape(theirs.shape), theirs)
        found.append(total.relative)
    return max(found)


class Programs:
    """Our compiled models, for any number of threads.

    Args:
        target: compile target.
        accuracy: accuracy setting.
    """

    def __init__(self, target: str, accuracy: str) -> None:
        self._target = target
        self._accuracy = accuracy
        self._known: dict[tuple[Path, str], Any] = {}

    def compiled(self, path: Path, precision: str = PRECISE) -> Any:
        key = path, precision
        if key not in self._known:
            options = {"precision": precision, "accuracy": self._accuracy}
            self._known[key] = tcopt.compile(path, self._target, **options)
        return self._known[key]

    def side(self, path: Path, feeds: Feeds, threads: int, precision: str = PRECISE) -> BenchSide:
        model = self.compiled(path, precision)
        model.threads = threads
        return BenchSide("tcopt", partial(model.run, feeds), 0.0)


def measure_network(name: str, models: Models, options: Any) -> list[Row]:
    """Return the rows of a network: for each kind, quantiser and number of threads."""
    path = models.path(name)
    model = onnx.load(path)
    feeds = feeds_of(model, CALIBRATION)
    exact = load_peer("onnxruntime", str(path), feeds, max(options.threads)).outputs()
    del model
    programs, rows = Programs(_target(options), options.accuracy), list[Row]()
    kinds = [kind for kind in NETWORKS[name].kinds if kind in options.kinds]
    for threads in options.threads:
        own = partial(programs.side, feeds=feeds, threads=threads)
        peer = partial(load_peer, feeds=feeds, threads=threads)
        if "int8" in kinds:
            sides = {"float32": partial(own, path)}
            for quantizer in QUANTIZERS:
                made = models.path(name, quantizer)
                sides[f"tcopt {quantizer}"] = partial(own, made)
                for runtime in options.peers:
                    sides[f"{runtime} {quantizer}"] = partial(peer, runtime, str(made))
            found = measure(sides, exact, options.seconds)
            for quantizer in QUANTIZERS:
                rows.append(_row(name, "int8", quantizer, threads, found, options.peers))
        if "bf16" in kinds:
            sides = {
                "float32": partial(own, path),
                "tcopt bf16": partial(own, path, precision="bf16"),
            }
            for runtime in [each for each in options.peers if each == "openvino"]:
                load = partial(peer, runtime, str(path), precision="bf16")
                sides[f"{runtime} bf16"] = load
            found = measure(sides, exact, options.seconds)
            rows.append(_row(name, "bf16", "bf16", threads, found, options.peers))
        gc.collect()
    return rows


def _row(
    name: str, kind: str, suffix: str, threads: int, found: Measured, peers: Sequence[str]
) -> Row:
    ours, times = found.times[f"tcopt {suffix}"], found.times
    known = [peer for peer in peers if f"{peer} {suffix}" in times]
    errors = {peer: found.errors[f"{peer} {suffix}"] for peer in known}
    own_error = found.errors[f"tcopt {suffix}"]
    return {
        "network": name,
        "kind": kind,
        "quantizer": suffix,
        "threads": threads,
        "float_ms": times["float32"].median * 1e3,
        "ours_ms": ours.median * 1e3,
        "gain": speed(ours, times["float32"]),
        "peer_ms": {peer: times[f"{peer} {suffix}"].median * 1e3 for peer in known},
        "speed": {peer: speed(ours, times[f"{peer} {suffix}"]) for peer in known},
        "error": own_error,
        "peer_error": errors,
        "agrees": not errors or own_error <= FURTHER * max(errors.values()) + 1e-4,
        "rounds": len(ours.bursts),
        "failed": {side: text for side, text in found.failed.items() if side.endswith(suffix)},
    }


# Tables


def tables(rows: Sequence[Row], peers: Sequence[str]) -> str:
    """Markdown: a table for each kind and number of threads."""
    parts: list[str] = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        for threads in sorted({row["threads"] for row in rows}):
            own = [r for r in rows if r["kind"] == kind and r["threads"] == threads]
            if own:
                shown = peers if kind == "int8" else [p for p in peers if p == "openvino"]
                parts.append(_table(kind, threads, own, shown))
    return "\n\n".join(parts)


def _table(kind: str, threads: int, rows: Sequence[Row], peers: Sequence[str]) -> str:
    by = ["quantised by"] if kind == "int8" else []
    errors = [f"error, {side}" for side in ("tcopt", *peers)]
    head = ["network", *by, "float32 ms", f"{kind} ms", *peers, "speedup over faster peer"]
    head += ["speedup over float32", *errors]
    title = f"{kind}, {threads} thread{'s' if threads > 1 else ''}"
    lines = [f"**{title}**", "", _line(head), "|" + "---|" * len(head)]
    for row in rows:
        ratios = [row["speed"][peer] for peer in peers if peer in row["speed"]]
        own = [row["network"], *([row["quantizer"]] if by else [])]
        own += [_number(row["float_ms"]), _number(row["ours_ms"])]
        own += [_number(row["peer_ms"].get(peer)) for peer in peers]
        own += [f"{min(ratios):.2f}" if ratios else "-", f"{row['gain']:.2f}"]
        own.append(f"{row['error']:.4f}" + ("" if row["agrees"] else " (off)"))
        own += [_number(row["peer_error"].get(peer), ".4f") for peer in peers]
        lines.append(_line(own))
    faster = [min(row["speed"].values()) for row in rows if row["speed"]]
    means = [f"{_mean(faster):.2f}" if faster else "-", f"{_mean([r['gain'] for r in rows]):.2f}"]
    each = [f"{_mean(found):.2f}x" if found else "-" for found in _by_peer(rows, peers)]
    label = ["geometric mean", *([""] if by else []), "", ""]
    lines.append(_line([*label, *each, *means, *("" for _ in errors)]))
    return "\n".join(lines)


def _by_peer(rows: Sequence[Row], peers: Sequence[str]) -> list[list[float]]:
    return [[row["speed"][peer] for row in rows if peer in row["speed"]] for peer in peers]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, form: str = ".3g") -> str:
    return "-" if value is None else f"{value:{form}}"


def _mean(values: Sequence[float]) -> float:
    return exp(fmean(log(value) for value in values))


# The command


def main() -> int:
    """Entry point of the script; returns the exit code."""
    parser = ArgumentParser("small_numbers.py", (__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="NAME", help="networks whose names begin so")
    add("--kinds", nargs="+", default=["int8", "bf16"], help="kinds of numbers (int8 bf16)")
    add("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (1 2)")
    add("--seconds", type=float, default=12.0, help="of each network, kind and threads (12)")
    default = Path(gettempdir()) / "tcopt-small-numbers"
    add("--models", type=Path, default=default, help=f"where models are kept ({default})")
    add("--cpu", help="what ours is compiled for, such as haswell (this one)")
    add("--accuracy", choices=ACCURACIES, default=DEFAULT, help=f"of ours ({DEFAULT})")
    add("--prepare", action="store_true", help="make models and compile, measure nothing")
    add("--output", type=Path, metavar="FILE", help="results as JSON, written after each network")
    add("--report", type=Path, metavar="FILE", help="only show results that were written")
    add("--traceback", action="store_true", help="after an error, print the Python stack")
    options = parser.parse_args()
    return run_tool("small_numbers.py", lambda: _run(options), show_traceback=options.traceback)


def _run(options: Any) -> int:
    if options.report:
        found = json.loads(options.report.read_text(encoding="utf-8"))
        print(tables(found["rows"], found["peers"]))
        return 0
    names = [n for n in NETWORKS if not options.only or n.startswith(tuple(options.only))]
    if not names:
        raise InputError("there is no such network", hint=f"networks are {', '.join(NETWORKS)}")
    models = Models(options.models)
    if options.prepare:
        for name in names:
            _prepare(name, models, Programs(_target(options), options.accuracy))
        return 0
    peers = () if options.cpu else installed_peers()
    options.peers = [peer for peer in peers if peer in ("onnxruntime", "openvino")]
    rows: list[Row] = []
    for number, name in enumerate(names):
        start = time.perf_counter()
        rows += measure_network(name, models, options)
        facts = {"machine": machine_facts(), "accuracy": options.accuracy}
        told = {**facts, "peers": options.peers, "rows": rows}
        if options.output:
            write_output(options.output, json.dumps(told, indent=1) + "\n")
        taken = time.perf_counter() - start
        print(f"{number + 1}/{len(names)} {name}: {taken:.0f} s", file=sys.stderr, flush=True)
    print(tables(rows, options.peers))
    failed = {f"{r['network']} {side}: {text}" for r in rows for side, text in r["failed"].items()}
    print("\n".join(["", *sorted(failed)]) if failed else "")
    rounds = median(row["rounds"] for row in rows)
    print(f"medians of {rounds:.0f} turns", file=sys.stderr)
    return 0 if all(row["agrees"] for row in rows) else 1


def _prepare(name: str, models: Models, programs: Programs) -> None:
    """Create and compile all that is measured of a network, so that the caches have it."""
    programs.compiled(models.path(name))
    if "bf16" in NETWORKS[name].kinds:
        programs.compiled(models.path(name), "bf16")
    if "int8" in NETWORKS[name].kinds:
        for quantizer in QUANTIZERS:
            programs.compiled(models.path(name, quantizer))


def _target(options: Any) -> str:
    return f"cpu:{options.cpu}" if options.cpu else "cpu"


if __name__ == "__main__":
    sys.exit(main())
