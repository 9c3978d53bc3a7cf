"""Compile and run all exported networks, including quantised ones: `make exports`.

The results are written to docs/exports.md. `--interpret` uses the graph interpreter instead, which
takes a minute or two.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from onnx import ModelProto

from exports.running import (
    KINDS,
    TOLERANCE,
    Run,
    compiled,
    interpreted,
    quantized_export,
    steps_apart,
    worst_error,
)
from exports.stored import feeds_of, load, stored_models
from models.checks import run_reference

DOCUMENT = Path(__file__).parents[2] / "docs" / "exports.md"

_HEAD = """# Networks exported from PyTorch

Each of these graphs was exported by PyTorch's legacy (TorchScript) or its newer (dynamo)
exporter, is stored in `tests/exports/models` without weights, and is run with random ones of
the same scale. `make exports` compiles all of them for the CPU, compares with onnxruntime and
writes this page; `make test` imports all, runs them by the graph interpreter, and compiles some.
`python tests/exports/export.py` exports them anew; it needs torch, torchvision, onnxscript and
transformers. This page is of a run {way}.

`error` is the largest difference from onnxruntime, as a part of the largest magnitude of an
output, rounded up to a power of ten. Dynamic batches, lengths, image sizes and the growing cache
of GPT-2 are run for each of the sizes stored.

`QDQ`, `QOperator` and `dynamic` are 8-bit networks that onnxruntime's quantiser makes of the last
export of each network. A number is how many steps of the output's quantisation, or
parts in 255 of its range, we and onnxruntime are apart. Sums of integers are exact; where real
numbers lie between (scales, softmax, interpolation), a number near a half may be rounded to the
other step, and later layers carry that on. `-` is one that the quantiser cannot make, or
onnxruntime cannot run.

| network | exporter | opset | nodes | error | QDQ | QOperator | dynamic |
|---|---|---|---|---|---|---|---|
"""

_STEPS = 8
"""Maximum difference of a deep network's results, in quantisation steps."""


def _power_of_ten(error: float) -> str:
    return "0" if error == 0 else f"1e{math.ceil(math.log10(error)):03d}"


def _quantised(name: str, kind: str, way: Callable[[ModelProto], Run]) -> tuple[str, bool]:
    """Return the result line of an 8-bit network, and whether it passes."""
    try:
        model = quantized_export(load(name), kind)
        run_reference(model, next(feeds_of(model)))
    except Exception:
        return "-", True
    try:
        steps = steps_apart(model, way)
    except Exception as error:
        print(f"{name} {kind}: {error}", flush=True)
        return "fails", False
    return f"{steps:.1f}", steps <= _STEPS


def main() -> int:
    """Run all; return the number of networks that fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="those that begin so (default: all)")
    parser.add_argument("--interpret", action="store_true", help="run without compiling")
    arguments = parser.parse_args()
    names = tuple(arguments.names)
    way = interpreted if arguments.interpret else compiled
    chosen = [n for n in stored_models() if not names or n.startswith(names)]
    rows, failed = [], 0
    for name in chosen:
        start = time.perf_counter()
        model = load(name)
        try:
            error = worst_error(model, way)
            told, good = _power_of_ten(error), error <= TOLERANCE
        except Exception as problem:
            print(f"{name}: {type(problem).__name__}: {problem}", flush=True)
            told, good = "fails", False
        network, exporter, opset = name.split(".")
        last = max(n for n in stored_models() if n.startswith(f"{network}."))
        cells = [_quantised(name, kind, way) if name == last else ("", True) for kind in KINDS]
        failed += not (good and all(fine for _, fine in cells))
        row = [network, exporter, opset, str(len(model.graph.node)), told]
        rows.append(f"| {' | '.join(row + [text for text, _ in cells])} |")
        print(f"{rows[-1]} {time.perf_counter() - start:.1f} s", flush=True)
    if not names:
        kinds = sorted({n.op_type for name in chosen for n in load(name).graph.node})
        tail = f"\nTheir {len(kinds)} operators: {', '.join(kinds)}.\n"
        told = "by the graph interpreter" if arguments.interpret else "of compiled code"
        DOCUMENT.write_text(_HEAD.format(way=told) + "\n".join(rows) + "\n" + tail)
    print(f"{failed} of {len(chosen)} fail")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
