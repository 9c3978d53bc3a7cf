"""Gather and its relatives, against onnxruntime."""

import numpy as np
import onnx.parser
import pytest

import tcopt
from models.checks import check_model, check_node, node_model, op_names
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int):
    indices = np.array([[0, 2], [-1, 1]], np.int64)
    check_node("Gather", X, indices, axis=axis)
    check_node("Gather", X, indices.astype(np.int32), axis=axis, constants=[1])


def test_gather_of_one_known_place_is_a_slice():
    place = np.array(-2, np.int64)
    check_node("Gather", X, place, axis=1, constants=[1])
    module = import_model(node_model("Gather", [X, place], axis=1, constants=[1]))
    assert op_names(module) == ["slice", "reshape"]


def test_known_indices_must_lie_inside():
    model = node_model("Gather", [X, np.array([0, 7], np.int64)], constants=[1])
    with pytest.raises(
        ImportModelError, match="indices into an axis of 3 from 0 to 7 should be from -3 to 2"
    ):
        import_model(model)


def test_gather_elements():
    indices = np.array([[[0, 1, 2, 0, -1]]], np.int64)
    check_node("GatherElements", X, indices, axis=0)


@pytest.mark.parametrize("batch", [0, 1])
def test_gather_nd(batch: int):
    indices = np.array([[0, 1], [2, -1], [1, 0]], np.int64)
    check_node("GatherND", X, indices, batch_dims=batch)


@pytest.mark.parametrize("axis", [-1, 0])
def test_one_hot(axis: int):
    indices, depth = np.array([[0, 3], [-1, 9]], np.int64), np.array(4, np.int64)
    values = np.array([-1, 2], np.float32)
    check_node("OneHot", indices, depth, values, axis=axis, constants=[1])


def test_places_of_known_conditions():
    condition = np.array([True, False, True])
    check_node("Compress", X, condition, axis=0, constants=[1])
    check_node("NonZero", np.array([[1, 0], [2, 3]], np.float32), constants=[0])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_elements(reduction: str):
    indices = np.array([[[0, 1, 2, 0, -1]]], np.int64)
    updates = np.array([[[5, -6, 70, 8, 9]]], np.float32)
    check_node("ScatterElements", X, indices, updates, reduction=reduction, opset=18)


def test_scatter_of_old_opsets():
    indices, updates = np.array([[[3]]], np.int64), np.array([[[-1]]], np.float32)
    check_node("Scatter", X, indices, updates, axis=1, opset=9)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_scatter_nd(reduction: str):
    indices = np.array([[0, 1], [2, -1], [1, 0]], np.int64)
    updates = np.arange(15, dtype=np.float32).reshape(3, 5)
    check_node("ScatterND", X, indices, updates, reduction=reduction, opset=18)


@pytest.mark.parametrize("batch", [0, 1])
def test_reverse_sequence(batch: int):
    lengths = np.array([2, 0, 3, 1][: X.shape[batch]], np.int64)
    check_node("ReverseSequence", X, lengths, batch_axis=batch, time_axis=1 - batch)


def test_scatters_onto_one_number():
    """Updates with a uniform value are written, not copied; other types have other loops."""
    node = "{z} = ScatterElements<axis = 0>({z}0, i, u)"
    wide = "float[40]"
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]>'
        f"g (int64[3] i, float[3] u, {wide} c0) => ({wide} a, {wide} b, {wide} c, {wide} d) {{"
        "s = Constant<value_ints = [40]>() a0 = ConstantOfShape<value = float[1] {0}>(s)"
        "b0 = ConstantOfShape<value = float[1] {2}>(s)"
        "d0 = ConstantOfShape<value = float[1] {-0}>(s)"
        + " ".join(node.format(z=z) for z in "abcd")
        + "}"
    )
    feeds = {
        "i": np.array([3, -1, 17], np.int64),
        "u": np.array([1, 2, 3], np.float32),
        "c0": np.arange(40, dtype=np.float32),
    }
    check_model(model, feeds)
    compiled = tcopt.compile(model)
    written = compiled.run(feeds)
    expected = [np.zeros(40), np.full(40, 2), feeds["c0"], -np.zeros(40)]
    for result, base in zip(written, expected, strict=True):
        wanted = base.astype(np.float32)
        wanted[feeds["i"]] = feeds["u"]
        np.testing.assert_array_equal(result, wanted)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(wanted))
