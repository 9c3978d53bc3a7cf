"""Elementwise operators, against onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto

import tcopt
from models.checks import check_node, node_model, op_names, run_imported
from tcopt.frontends.onnx import import_model

ANY = ["Abs", "Cos", "Elu", "Erf", "Exp", "Floor", "Ceil", "HardSigmoid", "HardSwish", "LeakyRelu"]
ANY += ["Mish", "Neg", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign"]
ANY += ["Tan", "Tanh", "Atan", "Sinh", "Cosh", "Asinh", "Celu", "ThresholdedRelu", "Shrink"]
POSITIVE = ["Log", "Sqrt", "Reciprocal"]


@pytest.mark.parametrize("op_type", ANY)
def test_unary_on_any_number(op_type: str, rng: np.random.Generator):
    x = rng.uniform(-3, 3, (2, 3, 5)).astype(np.float32)
    check_node(op_type, x, opset=18)


@pytest.mark.parametrize("op_type", POSITIVE)
def test_unary_on_positive_numbers(op_type: str, rng: np.random.Generator):
    check_node(op_type, rng.uniform(0.1, 3, (4, 3)).astype(np.float32))


@pytest.mark.parametrize("op_type", ["Acos", "Asin", "Atanh"])
def test_unary_on_the_unit_interval(op_type: str, rng: np.random.Generator):
    check_node(op_type, rng.uniform(-0.9, 0.9, (4, 3)).astype(np.float32))


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Elu", {"alpha": 0.3}),
        ("Selu", {"alpha": 1.5, "gamma": 0.7}),
        ("LeakyRelu", {"alpha": 0.2}),
        ("HardSigmoid", {"alpha": 0.4, "beta": 0.1}),
        ("Gelu", {"approximate": "none"}),
        ("Gelu", {"approximate": "tanh"}),
    ],
)
def test_attributes_reach_the_op(op_type: str, attributes: dict, rng: np.random.Generator):
    x = rng.standard_normal((3, 7)).astype(np.float32)
    check_node(op_type, x, opset=20, **attributes)


@pytest.mark.parametrize("opset", [6, 9, 13, 17])
def test_relu_of_every_opset(opset: int, rng: np.random.Generator):
    check_node("Relu", rng.standard_normal((2, 3)).astype(np.float32), opset=opset)


def test_clip_by_attributes_and_by_operands(rng: np.random.Generator):
    x = rng.standard_normal((3, 4)).astype(np.float32)
    low, high = np.array(-0.5, np.float32), np.array(0.7, np.float32)
    check_node("Clip", x, opset=6, min=-0.5, max=0.7)
    check_node("Clip", x, opset=10, max=0.7)
    check_node("Clip", x, low, high, opset=13, constants=[1, 2])
    check_node("Clip", x, None, high, opset=13, constants=[2])
    check_node("Clip", x, low, high, opset=13)


def test_clip_of_wide_integers_is_exact():
    x = np.array([-(2**62) - 1, 5, 2**62 + 1], np.int64)
    bound = np.array(2**62 - 1, np.int64)
    check_node("Clip", x, -bound, bound, opset=13, constants=[1, 2])


@pytest.mark.parametrize("target", ["FLOAT", "DOUBLE", "FLOAT16", "INT8", "INT64", "UINT8", "BOOL"])
def test_cast(target: str):
    x = np.array([0.0, 1.5, 2.9, 100.25], np.float32)
    check_node("Cast", x, to=getattr(TensorProto, target))


def test_is_nan_and_is_inf():
    x = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    check_node("IsNaN", x)
    check_node("IsInf", x)
    check_node("IsInf", x, detect_negative=0)
    check_node("IsInf", x, detect_positive=0)


def test_identity_and_dropout_emit_nothing():
    x = np.ones((2, 2), np.float32)
    assert op_names(import_model(node_model("Identity", [x]))) == []
    assert op_names(import_model(node_model("Dropout", [x], opset=9, ratio=0.5))) == []
    check_node("Dropout", x, outputs=2)


def test_dropout_in_training_drops_nothing_if_told_so():
    x, zero, training = np.ones(3, np.float32), np.array(0.0, np.float32), np.array(True)
    model = node_model("Dropout", [x, zero, training], constants=[1, 2])
    assert op_names(import_model(model)) == []
    np.testing.assert_array_equal(run_imported(model, {"x0": x})[0], x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_by_infinity(dtype: type):
    """The remainder of division by infinity is the dividend, or infinity if the signs differ."""
    x = np.array([3, -3, 3, -3, 0, np.inf, np.nan, 5.5], dtype)
    y = np.array([np.inf, np.inf, -np.inf, -np.inf, np.inf, np.inf, 2, -2], dtype)
    model = node_model("Mod", [x, y], opset=25)
    with np.errstate(invalid="ignore"):
        expected = np.mod(x, y)
    np.testing.assert_array_equal(
        tcopt.compile(model, workers=0).run({"x0": x, "x1": y})[0], expected
    )


def test_operators_that_are_as_old_as_onnx():
    x = np.array([True, False])
    model = node_model("Not", [x])
    model.opset_import[0].version = 1
    np.testing.assert_array_equal(run_imported(model, {"x0": x})[0], ~x)
