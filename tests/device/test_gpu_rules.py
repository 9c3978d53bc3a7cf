"""What the GPU rules make of operators, run on an OpenCL device, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import tcopt
from machines.opencl_device import TOLERANCE, needs_device
from models.checks import assert_close, run_reference
from tcopt.support.remarks import collect_remarks

_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'

CONVOLUTIONS = f"""{_HEAD}
convolutions (
  float[2, 6, 9, 16] x, float[50, 6, 3, 3] w, float[50] b, float[70, 6, 1, 1] w1,
  float[6, 1, 3, 3] wd, float[8, 3, 3, 3] wg, float[6, 5, 2, 2] wt, float[7, 6, 3, 3] ws
) => (
  float[2, 50, 9, 16] y, float[2, 70, 9, 16] y1, float[2, 6, 9, 16] yd, float[2, 8, 5, 12] yg,
  float[2, 5, 18, 32] yt, float[2, 7, 5, 8] ys
) {{
  c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w, b)
  y = Relu (c)
  y1 = Conv <kernel_shape = [1, 1]> (x, w1)
  yd = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 6> (x, wd)
  yg = Conv <kernel_shape = [3, 3], dilations = [2, 2], group = 2> (x, wg)
  yt = ConvTranspose <kernel_shape = [2, 2], strides = [2, 2]> (x, wt)
  ys = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x, ws)
}}"""

PRODUCTS = f"""{_HEAD}
products (
  float[3, 17, 24] a, float[3, 24, 20] b, float[17, 24] d, float[24, 13] w, float[20] e,
  float[3, 20, 24] f
) => (float[3, 17, 20] y, float[17, 13] z, float[3, 20, 17] t, float[3, 17, 20] u) {{
  p = MatMul (a, b)
  y = Add (p, e)
  z = MatMul (d, w)
  q = MatMul (a, b)
  t = Transpose <perm = [0, 2, 1]> (q)
  g = Transpose <perm = [0, 2, 1]> (f)
  u = MatMul (a, g)
}}"""

REDUCTIONS = f"""{_HEAD}
reductions (
  float[3, 5, 70] x, float[70] s, float[70] b, float[2, 3, 9, 12] p, float[2, 40, 200] q,
  float[3, 2100] long
) => (
  float[3, 5, 70] soft, float[3, 5, 70] norm, float[2, 3, 4, 6] pool, float[2, 3, 1, 1] mean,
  float[2, 3, 9, 12] group, float[2, 1, 200] top, float[2, 40, 200] log,
  float[3, 2100] part
) {{
  soft = Softmax <axis = -1> (x)
  norm = LayerNormalization <axis = -1> (x, s, b)
  pool = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [0, 0, 0, 1]> (p)
  mean = GlobalAveragePool (p)
  g1 = Constant <value_floats = [1.0, 2.0, 3.0]> ()
  group = InstanceNormalization (p, g1, g1)
  axes = Constant <value_ints = [1]> ()
  top = ReduceMax (q, axes)
  log = LogSoftmax <axis = 1> (q)
  part = Softmax <axis = 1> (long)
}}"""


def check(text: str, target: str, rules: set[str]) -> None:
    """Run a model on random inputs; the rules that scheduled its kernels are these."""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(7)
    feeds = {
        value.name: rng.standard_normal(
            [d.dim_value for d in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }
    with collect_remarks() as remarks:
        compiled = tcopt.compile(model, target)
    assert {r.by for r in remarks if r.message.startswith("scheduled")} == rules
    for ours, theirs in zip(compiled.run(feeds), run_reference(model, feeds), strict=True):
        assert_close(ours, np.asarray(theirs), TOLERANCE)


@pytest.mark.nightly
@needs_device
def test_register_tiles_of_convolutions() -> None:
    check(CONVOLUTIONS, "opencl:mali", {"gpu-register-tile", "gpu-window-tile"})


@needs_device
def test_register_tiles_of_products() -> None:
    check(PRODUCTS, "opencl:mali", {"gpu-register-tile", "gpu-injective"})


@pytest.mark.nightly
@needs_device
def test_register_tiles_on_a_cpu_through_opencl() -> None:
    """Rows are whole vectors, and strided ones are gathered."""
    check(CONVOLUTIONS, "opencl:pocl", {"gpu-register-tile"})
    check(PRODUCTS, "opencl:pocl", {"gpu-register-tile", "gpu-injective"})


@pytest.mark.nightly
@needs_device
def test_shared_tiles_of_convolutions() -> None:
    check(CONVOLUTIONS, "opencl", {"gpu-shared-tile", "gpu-window-tile"})


@pytest.mark.nightly
@needs_device
def test_shared_tiles_of_products() -> None:
    check(PRODUCTS, "opencl", {"gpu-shared-tile", "gpu-injective"})


@pytest.mark.nightly
@needs_device
def test_reductions() -> None:
    check(REDUCTIONS, "opencl", {"gpu-reduction", "gpu-launches"})


@pytest.mark.nightly
@needs_device
@pytest.mark.parametrize("count", [1, 30])
def test_batched_products_with_a_bias_and_a_transpose(count: int) -> None:
    """One kernel, which adds a row to each product and stores them in another order."""
    text = f"""{_HEAD}
batched (float[512, {count}, 17, 128] a, float[128, 17] b, float[17] c)
=> (float[512, 17, {count}, 17] y) {{
  p = MatMul (a, b)
  s = Add (p, c)
  y = Transpose <perm = [0, 2, 1, 3]> (s)
}}"""
    check(text, "opencl", {"gpu-shared-tile"})
