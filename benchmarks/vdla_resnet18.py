"""8-bit ResNet-18 on the CPU and an accelerator: equality with the CPU alone, and a time breakdown.

    python benchmarks/vdla_resnet18.py [--machine vta --shifts] [--model resnet18.onnx]
    python benchmarks/vdla_resnet18.py --machine vta-mulh --per-channel --accuracy fast

The model is quantised by onnxruntime's static quantiser (QDQ, weights and activations signed bytes,
symmetric), on random images. Scales are the quantiser's, with `--per-channel` one for each channel
of weights, and with `--shifts`, for machines that scale results themselves without multiplying,
rounded up to a power of two. The output is

- whether results equal the CPU's and onnxruntime's bit by bit, or their difference: with
  `--accuracy fast` integers may differ by one step from the CPU's;
- the number of accelerator calls, and of convolutions;
- cycles by unit, of work and of waiting by cause, over all programs that a run calls;
- milliseconds of these at 100 MHz. The paper's figure 21 has 2,867 for the convolutions on the CPU
  of a Pynq board and 73 with the accelerator, 40 times less, without the first one, which takes
  150 on either;
- seconds of compiling and of the simulator.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime import quantization

import tcopt
from saved import save
from tcopt.backends.accelerator.report import ProgramReport
from tcopt.backends.vdla.code import VdlaCode
from tcopt.quantization.errors import ErrorSum
from tcopt.runtime.program import Program
from tcopt.tools.benchmarking.accelerator import reports_of
from zoo import resnet18

_MEGAHERTZ = 100


class Images(quantization.CalibrationDataReader):
    """Random images for calibration."""

    def __init__(self, name: str, shape: tuple[int, ...], count: int = 2):
        rng = np.random.default_rng(0)
        self.feeds = iter([{name: rng.normal(size=shape).astype(np.float32)} for _ in range(count)])

    def get_next(self) -> dict[str, Any] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return next(self.feeds, None)


def quantised(
    model: onnx.ModelProto, *, shifts: bool, per_channel: bool = False
) -> onnx.ModelProto:
    """Quantise a model by onnxruntime, optionally with scales that are powers of two."""
    (data,) = model.graph.input
    shape = tuple(d.dim_value for d in data.type.tensor_type.shape.dim)
    options: dict[str, Any] = {"ActivationSymmetric": True, "WeightSymmetric": True}
    made = _quantised(model, Images(data.name, shape), options, per_channel=per_channel)
    if not shifts:
        return made
    scales = {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
    zero = np.array(0, np.int8)
    overrides: dict[str, Any] = {}
    for name, scale in scales.items():
        if name.endswith("_scale") and not name.endswith("_quantized_scale") and scale.ndim == 0:
            larger = np.array(2.0 ** np.ceil(np.log2(scale)), np.float32)
            entry = {"scale": larger, "zero_point": zero, "quant_type": _BYTES}
            overrides[name.removesuffix("_scale")] = [entry]
    options["TensorQuantOverrides"] = overrides
    return _quantised(model, Images(data.name, shape), options)


_BYTES = quantization.QuantType.QInt8


def _quantised(
    model: onnx.ModelProto, images: Images, options: dict[str, Any], *, per_channel: bool = False
) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        source, target = (Path(folder) / name for name in ("float.onnx", "bytes.onnx"))
        onnx.save(model, str(source))
        quantization.quantize_static(
            str(source),
            str(target),
            images,
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=_BYTES,
            weight_type=_BYTES,
            extra_options=options,
        )
        return onnx.load(str(target))


def cycles_by_unit(
    reports: list[ProgramReport], names: Mapping[str, int]
) -> dict[str, Counter[str]]:
    """Return the cycles of each unit over all program calls, by category."""
    found: dict[str, Counter[str]] = {}
    for report in reports:
        for unit, busy in report.busy.items():
            counts = found.setdefault(unit, Counter())
            counts["work"] += busy * names[report.name]
            for causes in report.stalls.get(unit, {}).values():
                counts.update({cause: n * names[report.name] for cause, n in causes.items()})
    return found


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--machine", default="vdla", help="a machine's name")
    parser.add_argument("--model", type=Path, help="a model in floats, ResNet-18 by default")
    parser.add_argument("--shifts", action="store_true", help="scales that are powers of two")
    parser.add_argument("--per-channel", action="store_true", help="weights' scales by channel")
    parser.add_argument("--accuracy", default="default", help="fast: steps of one are allowed")
    parser.add_argument("--json", type=Path, help="write the results")
    parser.add_argument("--every", action="store_true", help="all convolutions, whatever they cost")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    source = onnx.load(str(args.model)) if args.model else resnet18.build()
    model = quantised(source, shifts=args.shifts, per_channel=args.per_channel)
    every = f"partition{{all-of-them=true accuracy={args.accuracy}}}"
    passes = {"instead-of:partition": every} if args.every else {}
    start = time.perf_counter()
    target = f"vdla:{args.machine}"
    compiled = tcopt.compile(model, target, cache=False, passes=passes, accuracy=args.accuracy)
    compiling = time.perf_counter() - start
    (data,) = compiled.inputs
    feeds = {data.name: np.random.default_rng(1).normal(size=data.shape).astype(np.float32)}
    start = time.perf_counter()
    names: Counter[str] = Counter()

    execute = VdlaCode.execute

    def counted(code: VdlaCode, *args: Any) -> None:
        names[code.stream.name] += 1
        execute(code, *args)

    with patch.object(VdlaCode, "execute", counted):
        found = compiled.run(feeds)
    running = time.perf_counter() - start
    host = tcopt.compile(model, cache=False)
    expected = host.run(feeds)
    start = time.perf_counter()
    host.run(feeds)
    alone = time.perf_counter() - start
    session = onnxruntime.InferenceSession(model.SerializeToString())
    other = session.run(None, feeds)
    program = compiled.program
    assert isinstance(program, Program)
    convolutions = sum(node.op_type == "Conv" for node in model.graph.node)
    same = all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    most = max(float(np.abs(a - b).max()) for a, b in zip(found, other, strict=True))
    apart = max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
    error = ErrorSum()
    for ours, theirs in zip(found, expected, strict=True):
        error.add(ours, theirs)
    print(f"results are the CPU's: {same}, at most {apart:g} apart, relative {error.relative:.4f}")
    print(f"they differ from onnxruntime's by at most {most:g}")
    reports = list(reports_of(program))
    print(f"calls of the accelerator: {sum(names.values())}, of {len(reports)} programs; "
          f"convolutions of the model: {convolutions}")  # fmt: skip
    total = sum(report.cycles * names[report.name] for report in reports)
    print(f"cycles of the accelerator: {total:,}, {total / _MEGAHERTZ / 1e3:.1f} ms at 100 MHz")
    if args.json:
        row = {
            "cycles": total,
            "megahertz": _MEGAHERTZ,
            "calls": sum(names.values()),
            "programs": len(reports),
            "convolutions": convolutions,
            "same": same,
            "most": apart,
            "shifts": args.shifts,
        }
        save(args.json, f"python benchmarks/vdla_resnet18.py --machine {args.machine}", [row])
    for unit, counts in cycles_by_unit(reports, names).items():
        parts = ", ".join(f"{name} {n / total:.1%}" for name, n in counts.most_common() if n)
        print(f"  {unit}: {parts}")
    print(f"compiled in {compiling:.1f} s, simulated in {running:.1f} s, CPU alone {alone:.3f} s")
    sys.exit(not same and args.accuracy != "fast")


if __name__ == "__main__":
    main()
