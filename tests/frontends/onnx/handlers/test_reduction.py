"""Reductions, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node, node_model
from tcopt.frontends.onnx import MissingValuesError, import_model
from tcopt.support.errors import ImportModelError

KINDS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axes", [None, [0], [-1, 1]])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_as_attribute(kind: str, axes: list | None, keepdims: int, rng: np.random.Generator):
    x = rng.uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
    attributes = {} if axes is None else {"axes": axes}
    check_node(f"Reduce{kind}", x, opset=11, keepdims=keepdims, **attributes)


@pytest.mark.parametrize("kind", KINDS)
def test_axes_as_operand(kind: str, rng: np.random.Generator):
    x = rng.uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
    axes = np.array([0, 2], np.int64)
    check_node(f"Reduce{kind}", x, axes, opset=18, constants=[1])


def test_no_axes_is_all_or_none(rng: np.random.Generator):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    empty = np.array([], np.int64)
    check_node("ReduceSum", x, empty, constants=[1])
    check_node("ReduceSum", x, empty, constants=[1], noop_with_empty_axes=1)


def test_axes_at_run_time_are_asked_for():
    arrays = [np.ones((2, 3), np.float32), np.array([1], np.int64)]
    with pytest.raises(MissingValuesError, match='depends on input "x1"') as caught:
        import_model(node_model("ReduceSum", arrays))
    assert caught.value.inputs == ("x1",)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_arg_reduce(op_type: str, last: int, keepdims: int, rng: np.random.Generator):
    x = rng.integers(0, 3, (4, 9)).astype(np.float32)
    check_node(op_type, x, axis=1, keepdims=keepdims, select_last_index=last)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sum(exclusive: int, reverse: int, rng: np.random.Generator):
    x = rng.standard_normal((3, 5)).astype(np.float32)
    axis = np.array(1, np.int64)
    check_node("CumSum", x, axis, constants=[1], exclusive=exclusive, reverse=reverse)


def test_repeated_axis():
    with pytest.raises(ImportModelError, match="repeat a dimension"):
        import_model(node_model("ReduceMean", [np.ones((2, 3), np.float32)], axes=[1, -1]))
