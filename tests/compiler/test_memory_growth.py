"""Compiling models repeatedly does not leak memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import tcopt
from tcopt.support.errors import TcoptError

pytestmark = pytest.mark.nightly

LEFT_PER_COMPILE = 25
"""Allowed growth in Python objects: weak references and library caches, of 100,000 that a compile
creates."""


def dense(rows: int | str, columns: int) -> ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
dense (float[{rows}, 37] x, float[37, {columns}] w) => (float[{rows}, {columns}] y) {{
  h = MatMul(x, w)
  y = Softmax(h)
}}""")


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def growth(step: Callable[[int], object], steps: int = 6, first: int = 3) -> float:
    """Return the number of objects that each step leaves behind, after warm-up.

    The minimum of two series: either may contain a one-time allocation.
    """
    for number in range(first):
        step(number)
    counts = [objects()]
    for row in range(2):
        for number in range(steps):
            step(first + row * steps + number)
        counts.append(objects())
    return min(after - before for before, after in pairwise(counts)) / steps


def test_compiles_leave_nothing_behind():
    left = growth(lambda n: tcopt.compile(dense(5 + n, 11 + n), workers=0, cache=False))
    assert left < LEFT_PER_COMPILE


def test_compiles_for_devices_leave_nothing_behind():
    left = growth(lambda n: tcopt.compile(dense(5 + n, 11 + n), "opencl", cache=False))
    assert left < LEFT_PER_COMPILE


def test_models_that_are_refused_leave_nothing_behind():
    def refused(number: int) -> None:
        model = dense(5 + number, 11)
        model.graph.node[0].op_type = f"NoOperator{number}"
        with pytest.raises(TcoptError):
            tcopt.compile(model, cache=False)

    assert growth(refused) < LEFT_PER_COMPILE


def test_new_shapes_leave_nothing_behind():
    """When the cache of programs is full, each new one replaces another."""
    source = dense("n, 1", 9)
    # The rank depends on n, so each n has its own program.
    source.graph.node.insert(0, onnx.helper.make_node("Squeeze", ["x"], ["rows"]))
    source.graph.node[1].input[0] = "rows"
    source.graph.output[0].type.tensor_type.ClearField("shape")
    model = tcopt.compile(source, workers=0, cache=False, programs_kept=2)
    w = np.ones((37, 9), np.float32)
    left = growth(lambda n: model.run({"x": np.ones((n + 2, 1, 37), np.float32), "w": w}))
    assert left < LEFT_PER_COMPILE


def test_loads_leave_nothing_behind(tmp_path: Path):
    tcopt.compile(dense(5, 11), workers=0).save(tmp_path / "m.tcm")
    assert growth(lambda _: tcopt.load(tmp_path / "m.tcm"), steps=20) < LEFT_PER_COMPILE
