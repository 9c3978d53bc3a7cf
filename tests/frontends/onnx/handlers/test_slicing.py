"""Slice, Split, Concat and Pad, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node, node_model, op_names
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
FAR = 2**63 - 1


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("starts", "ends", "axes"),
    [([0, 1], [2, 3], [0, 1]), ([1], [FAR], [2]), ([-3], [-1], [1]), ([1, 0, 2], [3, 4, 5], None)],
)
def test_slice_by_attributes(starts: list, ends: list, axes: list | None):
    attributes = {} if axes is None else {"axes": axes}
    check_node("Slice", X, opset=9, starts=starts, ends=ends, **attributes)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([0], [4], [1], [2]),
        ([-1], [-FAR], [2], [-1]),
        ([3, 0], [0, 5], [1, 2], [-2, 3]),
        ([2], [1], [0], [1]),
        ([10], [20], [0], [1]),
        ([-100], [100], [-1], [1]),
    ],
)
def test_slice_by_operands(starts: list, ends: list, axes: list, steps: list):
    lists = [ints(*values) for values in (starts, ends, axes, steps)]
    check_node("Slice", X, *lists, constants=[1, 2, 3, 4])


def test_slice_of_everything_emits_nothing():
    model = node_model("Slice", [X, ints(0), ints(FAR), ints(1)], constants=[1, 2, 3])
    assert op_names(import_model(model)) == []


def test_slice_by_step_zero():
    lists = [ints(0), ints(1), ints(0), ints(0)]
    with pytest.raises(ImportModelError, match="a step is 0"):
        import_model(node_model("Slice", [X, *lists], constants=[1, 2, 3, 4]))


def test_split():
    check_node("Split", X, opset=11, axis=2, split=[1, 4], outputs=2)
    check_node("Split", X, opset=11, axis=0, outputs=3)
    check_node("Split", X, ints(1, 0, 3), axis=1, outputs=3, constants=[1])
    check_node("Split", X, opset=18, axis=2, num_outputs=2, outputs=2)


def test_sizes_must_add_up():
    model = node_model("Split", [X, ints(1, 1)], outputs=2, constants=[1])
    with pytest.raises(ImportModelError, match="do not split 3"):
        import_model(model)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int):
    check_node("Concat", X, X + 1, X * 2, axis=axis)


def test_concat_of_unlike_shapes():
    with pytest.raises(ImportModelError, match="differ in an axis other than 0"):
        import_model(node_model("Concat", [X, X[:, :2]], axis=0))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_of_both_versions(mode: str):
    pads = [0, 1, 2, 1, 0, 2]
    check_node("Pad", X, opset=10, pads=pads, mode=mode)
    check_node("Pad", X, ints(*pads), constants=[1], mode=mode)


def test_pad_values_and_axes():
    value = np.array(2.5, np.float32)
    check_node("Pad", X, opset=10, pads=[1, 0, 0, 0, 0, 1], value=2.5)
    check_node("Pad", X, ints(1, 0, 0, 0, 0, 1), value, constants=[1, 2])
    check_node("Pad", X, ints(1, 2), value, ints(-1), opset=18, constants=[1, 2, 3])
    check_node("Pad", X, ints(-1, 0, 1, 0, -2, 0), constants=[1])
    check_node("Pad", X, ints(1, 0, 2, 0, 3, 0), opset=19, mode="wrap", constants=[1])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("shape", "pads", "dtype"),
    [
        ((3, 9, 150), (0, 3, 3, 0, 2, 5), np.float32),
        ((2, 130), (0, 60, 0, 7), np.float32),
        ((5, 70), (1, -3, 0, 40), np.float32),
        ((1, 4, 6, 33), (0, 0, 2, 0, 0, 0, 3, 0), np.float32),
        # Pixels with few channels.
        ((2, 5, 40, 3), (0, 2, 3, 0, 0, 1, 4, 0), np.uint8),
        ((2, 5, 40, 3), (0, 2, 3, 0, 0, 1, 4, 0), np.float32),
        ((1, 7, 31, 5), (0, 0, 9, 0, 0, 0, -2, 0), np.float32),
        ((2, 130, 1), (0, 20, 0, 0, 7, 0), np.float32),
        ((3, 33, 2, 2), (1, 6, 0, 0, 0, 11, 0, 0), np.float32),
    ],
)
def test_pad_of_long_rows(mode: str, shape: tuple, pads: tuple, dtype: type):
    """Rows of many vectors, most of which are not in a border."""
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    check_node("Pad", x, ints(*pads), opset=19, mode=mode, constants=[1])


def test_pad_around_more_than_once():
    check_node("Pad", X, ints(0, 0, 7, 0, 9, 12), opset=19, mode="wrap", constants=[1])


def test_parts_of_long_rows():
    """Only vectors that cross the border of a part use a select."""
    rows = [np.full((6, n), n, np.float32) for n in (37, 100)]
    check_node("Concat", *rows, axis=1)
