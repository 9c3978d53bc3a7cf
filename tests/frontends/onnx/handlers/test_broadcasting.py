"""Operators with several operands, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node, node_model, run_imported
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (4,), (3, 1), (1,), ()])
def test_arithmetic_broadcasts(op_type: str, shape: tuple[int, ...], rng: np.random.Generator):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    y = rng.uniform(0.5, 2, shape).astype(np.float32)
    check_node(op_type, x, y)


@pytest.mark.parametrize("op_type", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_comparison(op_type: str, rng: np.random.Generator):
    x, y = (rng.integers(0, 3, shape).astype(np.int64) for shape in ((4, 5), (5,)))
    check_node(op_type, x, y)


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
def test_logic(op_type: str, rng: np.random.Generator):
    check_node(op_type, rng.random((3, 4)) < 0.5, rng.random(4) < 0.5)


@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise(op_type: str, rng: np.random.Generator):
    x, y = (rng.integers(0, 255, shape).astype(np.uint8) for shape in ((3, 4), (4,)))
    check_node(op_type, x, y, opset=18)


@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_operands(op_type: str, count: int, rng: np.random.Generator):
    check_node(op_type, *(rng.standard_normal((2, 3)).astype(np.float32) for _ in range(count)))


def test_pow_keeps_the_type_of_the_base(rng: np.random.Generator):
    x = rng.uniform(0.5, 2, (3, 4)).astype(np.float32)
    check_node("Pow", x, np.array(3.0, np.float32))
    check_node("Pow", x, np.array([1, 2, 3, 4], np.int64))
    check_node("Pow", np.array([1, 2, 3], np.int32), np.array(2.0, np.float32))


def test_integer_division_and_remainder():
    x, y = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    check_node("Div", x, y)
    check_node("Mod", x, y)
    check_node("Mod", x, y, fmod=1)
    check_node("Mod", x.astype(np.float32), y.astype(np.float32), fmod=1)


def test_where(rng: np.random.Generator):
    x, y = rng.standard_normal((3, 4)), rng.standard_normal(4)
    check_node("Where", rng.random((3, 1)) < 0.5, x.astype(np.float32), y.astype(np.float32))


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(direction: str):
    x, y = np.array([1, 16, 255, 3], np.uint8), np.array([1, 2, 3, 7], np.uint8)
    check_node("BitShift", x, y, direction=direction)


# onnxruntime no longer supports opset 6 broadcasting: compare with numpy.


def test_opset_6_places_the_second_operand_at_an_axis(rng: np.random.Generator):
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    y = rng.standard_normal((3, 4)).astype(np.float32)
    model = node_model("Add", [x, y], opset=6, broadcast=1, axis=1)
    (result,) = run_imported(model, {"x": x, "y": y})
    np.testing.assert_array_equal(result, x + y[None, :, :, None])


def test_opset_6_aligns_at_the_end_without_an_axis(rng: np.random.Generator):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    y = rng.standard_normal(3).astype(np.float32)
    (result,) = run_imported(node_model("Mul", [x, y], opset=6, broadcast=1), {"x": x, "y": y})
    np.testing.assert_array_equal(result, x * y)


def test_opset_6_does_not_broadcast_unasked():
    model = node_model("Add", [np.ones((2, 3), np.float32), np.ones(3, np.float32)], opset=6)
    with pytest.raises(ImportModelError, match=r"broadcast is off.*at node"):
        import_model(model)


def test_shapes_that_do_not_broadcast_name_the_node():
    model = node_model("Add", [np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)])
    with pytest.raises(ImportModelError, match=r"do not broadcast \(at node\)"):
        import_model(model)
