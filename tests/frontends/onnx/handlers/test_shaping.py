"""Operators that change shapes, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node, node_model, op_names
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("shape", [(6, 4), (-1, 2), (0, -1), (0, 0, 2, 2), (24,)])
def test_reshape(shape: tuple):
    check_node("Reshape", X, ints(*shape), constants=[1])


def test_reshape_with_allowzero():
    check_node("Reshape", X[:0], ints(3, 0), constants=[1], allowzero=1)


@pytest.mark.parametrize("shape", [(5, -1), (-1, -1), (0, 0, 0, 0), (-2, 12), (7,)])
def test_reshape_that_cannot_be(shape: tuple):
    with pytest.raises(ImportModelError, match=r"Reshape.*node"):
        import_model(node_model("Reshape", [X, ints(*shape)], constants=[1]))


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten(axis: int):
    check_node("Flatten", X, axis=axis)


@pytest.mark.parametrize("axes", [None, (0,), (0, -1)])
def test_squeeze_of_both_versions(axes: tuple | None):
    x = X.reshape(1, 6, 4, 1)
    check_node("Squeeze", x, opset=11, **({} if axes is None else {"axes": list(axes)}))
    operands = [x] if axes is None else [x, ints(*axes)]
    check_node("Squeeze", *operands, constants=[1])


@pytest.mark.parametrize("axes", [(0,), (1, -1), (4, 0)])
def test_unsqueeze_of_both_versions(axes: tuple):
    check_node("Unsqueeze", X, opset=11, axes=list(axes))
    check_node("Unsqueeze", X, ints(*axes), constants=[1])


def test_squeeze_of_a_wide_axis():
    with pytest.raises(ImportModelError, match="not all of extent 1"):
        import_model(node_model("Squeeze", [X], opset=11, axes=[1]))


def test_transpose():
    check_node("Transpose", X)
    check_node("Transpose", X, perm=[1, 0, 2])
    with pytest.raises(ImportModelError, match="does not permute"):
        import_model(node_model("Transpose", [X], perm=[0, 0, 1]))


@pytest.mark.parametrize("shape", [(5, 2, 3, 4), (1,), (2, 1, 1), ()])
def test_expand(shape: tuple):
    check_node("Expand", X, ints(*shape), constants=[1])


def test_tile():
    check_node("Tile", X, ints(1, 2, 3), constants=[1])
    check_node("Tile", X[:, :, :1], ints(1, 3, 1), constants=[1])
    check_node("Tile", X[0, 0], ints(3), constants=[1])


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode: str):
    x = np.arange(96, dtype=np.float32).reshape(1, 8, 3, 4)
    check_node("DepthToSpace", x, blocksize=2, mode=mode)
    check_node("SpaceToDepth", x.reshape(1, 2, 6, 8), blocksize=2)


@pytest.mark.parametrize("k", [None, 0, 1, -1, 5])
@pytest.mark.parametrize("upper", [0, 1])
def test_trilu(k: int | None, upper: int):
    operands = [X] if k is None else [X, np.array(k, np.int64)]
    check_node("Trilu", *operands, constants=[1], upper=upper)


@pytest.mark.parametrize(
    "model",
    [
        node_model("Reshape", [X, ints(2, -1, 4)], constants=[1]),
        node_model("Tile", [X, ints(1, 1, 1)], constants=[1]),
        node_model("Expand", [X, ints(3, 1)], constants=[1]),
        node_model("Transpose", [X], perm=[0, 1, 2]),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_what_changes_nothing_emits_nothing(model):
    assert op_names(import_model(model)) == []
