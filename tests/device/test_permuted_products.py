"""Products whose results are stored in another order: no launch moves elements alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper

import tcopt
from machines.cuda_machine import cuda_machine
from models.checks import assert_close, run_reference
from models.light_models import random_inputs
from tcopt.runtime.device.program import DeviceProgram


class Case(NamedTuple):
    """A model of `a` and a weight, the precision that it is compiled for, and its launches."""

    text: str
    launches: int
    precision: str = "f32"


def heads(rows: int, depth: int, perm: list[int]) -> str:
    """A projection whose columns are split into three heads of 8."""
    result = [[1, rows, 3, 8][axis] for axis in perm]
    return f"""(float[1, {rows}, {depth}] a, float[{depth}, 24] w, float[24] b)
        => (float{result} y) {{
          m = MatMul (a, w)  s = Add (m, b)  shape = Constant <value_ints = [1, {rows}, 3, 8]> ()
          r = Reshape (s, shape)  y = Transpose <perm = {perm}> (r) }}"""


CASES = {
    "heads": Case(heads(32, 48, [0, 2, 1, 3]), 1),
    "transposed-heads": Case(heads(32, 48, [0, 2, 3, 1]), 1),
    "parts-of-sums": Case(heads(16, 2048, [0, 2, 1, 3]), 2),
    "parts-of-transposed-sums": Case(heads(16, 2048, [0, 2, 3, 1]), 2),
    "channels-last": Case(
        """(float[1, 8, 10, 10] a, float[20, 8, 3, 3] w) => (float[1, 10, 10, 20] y) {
          c = Conv <pads = [1, 1, 1, 1]> (a, w)  t = Transpose <perm = [0, 2, 3, 1]> (c)
          y = Relu (t) }""",
        1,
    ),
    # Heads are merged, and rounded for the product that follows.
    "rounded": Case(
        """(float[3, 32, 48] a, float[3, 48, 8] b, float[24, 40] w) => (float[1, 32, 40] y) {
          m = MatMul (a, b)  t = Transpose <perm = [1, 0, 2]> (m)
          shape = Constant <value_ints = [1, 32, 24]> ()  r = Reshape (t, shape)
          y = MatMul (r, w) }""",
        2,
        "f16",
    ),
}


def model_of(case: Case) -> ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> f {case.text}')
    (weight,) = (value for value in model.graph.input if value.name == "w")
    shape = [d.dim_value for d in weight.type.tensor_type.shape.dim]
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    model.graph.input.remove(weight)
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    return model


@pytest.mark.nightly(daily=["parts-of-sums", "rounded"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_stored_where_they_go(name: str) -> None:
    case = CASES[name]
    model = model_of(case)
    feeds = random_inputs(model)
    with cuda_machine((8, 0)):
        compiled = tcopt.compile(model, "cuda:sm_80", precision=case.precision, cache=False)
        results = compiled.run(feeds)
    assert isinstance(compiled.program, DeviceProgram)
    assert len(compiled.program.steps) == case.launches
    tolerance = 1e-5 if case.precision == "f32" else 2.0**-10
    for ours, theirs in zip(results, run_reference(model, feeds), strict=True):
        assert_close(ours, np.asarray(theirs), tolerance)
