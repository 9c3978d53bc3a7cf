"""Products of a tensor with itself: one buffer with two access patterns."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, helper

import tcopt
from machines.opencl_device import needs_device
from models.checks import assert_close, run_reference

_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
PRODUCTS = {
    "square": "(float[48, 48] x) => (float[48, 48] y) { y = MatMul(x, x) }",
    "batch": "(float[3, 40, 40] x) => (float[3, 40, 40] y) { y = MatMul(x, x) }",
    "and added": "(float[64, 64] x) => (float[64, 64] y) { a = MatMul(x, x) y = Add(a, x) }",
    "transposed": """(float[64, 40] x) => (float[64, 64] y)
        { t = Transpose <perm = [1, 0]> (x) y = MatMul(x, t) }""",
    "both transposed": """(float[64, 64] x) => (float[64, 64] y)
        { t = Transpose <perm = [1, 0]> (x) y = MatMul(t, t) }""",
    "gemm": "(float[64, 80] x) => (float[64, 64] y) { y = Gemm <transB = 1> (x, x) }",
    "gemm of three": "(float[64, 64] x) => (float[64, 64] y) { y = Gemm(x, x, x) }",
    "computed": """(float[64, 64] x) => (float[64, 64] y)
        { r = Relu(x) a = MatMul(r, r) b = MatMul(a, r) y = Relu(b) }""",
    "long": """(float[16, 4096] x) => (float[16, 16] y)
        { t = Transpose <perm = [1, 0]> (x) y = MatMul(x, t) }""",
    "bytes": "(uint8[64, 64] x) => (int32[64, 64] y) { y = MatMulInteger(x, x) }",
    "half": "(float16[64, 64] x) => (float16[64, 64] y) { y = MatMul(x, x) }",
    "einsum": """(float[8, 32, 32] x) => (float[8, 32, 32] y)
        { y = Einsum <equation = "bij,bjk->bik"> (x, x) }""",
    "scalar": """(float[32, 32] x) => (float y) { y = Einsum <equation = "ij,ji->"> (x, x) }""",
    "convolution": "(float[16, 16, 3, 3] x) => (float[16, 16, 1, 1] y) { y = Conv(x, x) }",
    "padded": """(float[8, 8, 3, 3] x) => (float[8, 8, 3, 3] y)
        { y = Conv <pads = [1, 1, 1, 1]> (x, x) }""",
    "transposed convolution": """(float[8, 8, 3, 3] x) => (float[8, 8, 5, 5] y)
        { y = ConvTranspose(x, x) }""",
    "attention": """(float[2, 4, 32, 16] x) => (float[2, 4, 32, 16] y)
        { t = Transpose <perm = [0, 1, 3, 2]> (x) s = MatMul(x, t)
          p = Softmax <axis = -1> (s) y = MatMul(p, x) }""",
}


def _model(name: str) -> ModelProto:
    return onnx.parser.parse_model(f"{_HEAD}\ntwice {PRODUCTS[name]}")


def _check(name: str, target: str) -> None:
    model = _model(name)
    facts = model.graph.input[0].type.tensor_type
    shape, dtype = [d.dim_value for d in facts.shape.dim], facts.elem_type
    numbers = 5 * np.random.default_rng(11).standard_normal(shape)
    x = numbers.astype(helper.tensor_dtype_to_np_dtype(dtype))
    (ours,) = tcopt.compile(model, target).run({"x": x})
    (theirs,) = run_reference(model, {"x": x})
    # Sums in another order; for f16, onnxruntime rounds intermediates.
    assert_close(ours, np.asarray(theirs), 2e-3 if x.dtype == np.float16 else 1e-5)


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("name", PRODUCTS)
def test_on_this_cpu(name: str) -> None:
    _check(name, "cpu")


@pytest.mark.nightly(every=10)
@needs_device
@pytest.mark.parametrize("name", PRODUCTS)
def test_on_a_device(name: str) -> None:
    _check(name, "opencl")


@pytest.mark.nightly(every=12)
@pytest.mark.parametrize("target", ["cuda:sm_80", "vdla"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_compiles_for_others(name: str, target: str) -> None:
    tcopt.compile(_model(name), target)
