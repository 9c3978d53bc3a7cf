"""Casts to and quantisation with types below 16 bits, against ONNX's reference evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx.parser
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcopt
from models.checks import node_model
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError

FLOATS = [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ, TensorProto.FLOAT4E2M1]
INTEGERS = [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2]


def compiled(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return tcopt.compile(model, workers=0).run(feeds)


def check(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Bits equal the reference's, except for the sign of a nan."""
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    actual = compiled(model, feeds)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.astype(np.float32), theirs.astype(np.float32))
    return actual


def test_saturation():
    """Values out of range saturate to the largest one, or become nan or infinity without
    saturation."""
    x = np.array([1e9, -1e9, np.inf, np.nan, 448.0, 464.0, 465.0, 0.3], np.float32)
    model = node_model("Cast", [x], opset=23, to=FLOATS[0])
    del model.graph.node[:], model.graph.output[:]
    for to in FLOATS:
        for saturate in (0, 1):
            name = f"y{to}_{saturate}"
            node = helper.make_node("Cast", ["x0"], [name], to=to, saturate=saturate)
            model.graph.node.append(node)
            model.graph.output.append(helper.make_empty_tensor_value_info(name))
    check(model, {"x0": x})


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_exponents(mode: str, saturate: int):
    """Powers of two, values between them, and the largest and smallest values."""
    x = np.array([0, 1, 1.5, 1.75, 3, 6, 1e-38, 1e-40, 3.4e38, np.inf, np.nan], np.float32)
    options = {"to": TensorProto.FLOAT8E8M0, "saturate": saturate, "round_mode": mode}
    check(node_model("Cast", [x], opset=25, **options), {"x0": x})


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("to", FLOATS + INTEGERS)
def test_quantize_and_back(to: int, rng: np.random.Generator):
    """Per axis, with values out of range; integer types have a zero point."""
    dtype = helper.tensor_dtype_to_np_dtype(to)
    x = (rng.standard_normal((3, 17)) * 12).astype(np.float32)
    scale = np.array([0.5, 1.0, 0.3], np.float32)
    zero = np.array([0, 1, 1] if to in INTEGERS else [0, 0, 0]).astype(dtype)
    (codes,) = check(
        node_model("QuantizeLinear", [x, scale, zero], opset=25, constants=[1, 2], axis=0),
        {"x0": x},
    )
    back = node_model("DequantizeLinear", [codes, scale, zero], opset=25, axis=0)
    check(back, {"x0": codes, "x1": scale, "x2": zero})


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("name", ["int4", "uint2", "float4_e2m1fn", "float8_e5m2"])
def test_packed_weights(name: str, raw: bool, rng: np.random.Generator):
    """A weight with an odd number of elements, moved and split as bytes."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    number = helper.np_dtype_to_tensor_dtype(dtype)
    w = rng.integers(0, 3, (5, 3)).astype(np.int8).astype(dtype)
    if raw:
        weight = numpy_helper.from_array(w, "w")
    else:
        values = w.reshape(-1).astype(np.float32)
        weight = helper.make_tensor("w", number, w.shape, values)
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 25]>
    packed (float[3, 5] x) => (float[3, 5] y, float[3, 7] z) {
        turned = Transpose<perm = [1, 0]>(w)
        zeros = Constant<value_ints = [0, 1, 0, 1]>()
        padded = Pad(turned, zeros)
        z = Cast<to = 1>(padded)
        wide = Cast<to = 1>(turned)
        y = Add(wide, x)
    }""")
    model.graph.initializer.append(weight)
    check(model, {"x": rng.standard_normal((3, 5)).astype(np.float32)})


def test_narrow_inputs_and_outputs_are_kept(tmp_path, rng: np.random.Generator):
    """A saved model has the same input and output types."""
    x = rng.integers(-8, 8, (4, 6)).astype(np.int8).astype(ml_dtypes.int4)
    model = tcopt.compile(node_model("Transpose", [x], opset=25), workers=0)
    model.save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    (y,) = loaded.run({"x0": x})
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x.T)


def test_bits_of_another_width():
    x = np.zeros(4, ml_dtypes.int4)
    with pytest.raises(ImportModelError, match="i4 and i8 differ in width"):
        import_model(node_model("BitCast", [x], opset=26, to=TensorProto.INT8))
