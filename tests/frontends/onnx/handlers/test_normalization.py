"""Normalisations and softmax, against onnxruntime."""

import numpy as np
import pytest

from models.checks import assert_close, check_node, node_model, op_names, run_imported
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(opset: int, rng: np.random.Generator):
    x, scale, bias, mean = (normal(rng, *shape) for shape in ((2, 3, 4, 5), (3,), (3,), (3,)))
    var = rng.uniform(0.5, 2, 3).astype(np.float32)
    check_node("BatchNormalization", x, scale, bias, mean, var, opset=opset, epsilon=1e-3)


@pytest.mark.parametrize("axis", [-1, 1, 2])
@pytest.mark.parametrize("outputs", [1, 3])
def test_layer_normalization(axis: int, outputs: int, rng: np.random.Generator):
    x = normal(rng, 2, 3, 4)
    shape = x.shape[axis:] if axis > 0 else (4,)
    scale, bias = normal(rng, *shape), normal(rng, *shape)
    check_node("LayerNormalization", x, scale, bias, axis=axis, outputs=outputs)


def test_layer_normalization_without_bias(rng: np.random.Generator):
    check_node("LayerNormalization", normal(rng, 2, 5), normal(rng, 5))


def test_instance_normalization(rng: np.random.Generator):
    check_node("InstanceNormalization", normal(rng, 2, 3, 4, 5), normal(rng, 3), normal(rng, 3))


def test_group_normalization_by_channel(rng: np.random.Generator):
    x, scale, bias = normal(rng, 2, 6, 4), normal(rng, 6), normal(rng, 6)
    check_node("GroupNormalization", x, scale, bias, opset=21, num_groups=3)


def test_group_normalization_by_group(rng: np.random.Generator):
    x, scale, bias = normal(rng, 2, 6, 4), normal(rng, 3), normal(rng, 3)
    model = node_model("GroupNormalization", [x, scale, bias], opset=18, num_groups=3)
    groups = x.reshape(2, 3, 8)
    unit = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    expected = (unit * scale[:, None] + bias[:, None]).reshape(x.shape)
    (result,) = run_imported(model, {"x0": x, "x1": scale, "x2": bias})
    assert_close(result, expected, 1e-5)


def test_rms_normalization(rng: np.random.Generator):
    check_node("RMSNormalization", normal(rng, 2, 3, 8), normal(rng, 8), opset=23)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p: int, rng: np.random.Generator):
    check_node("LpNormalization", normal(rng, 3, 4), p=p, axis=0)


@pytest.mark.parametrize("size", [3, 5])
def test_lrn(size: int, rng: np.random.Generator):
    check_node("LRN", normal(rng, 1, 7, 4, 4), size=size, alpha=0.1, beta=0.6, bias=1.5)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [9, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(op_type: str, opset: int, axis: int, rng: np.random.Generator):
    check_node(op_type, normal(rng, 2, 3, 4), opset=opset, axis=axis)


def test_default_axis_of_each_version(rng: np.random.Generator):
    check_node("Softmax", normal(rng, 2, 3, 4), opset=11)
    check_node("Softmax", normal(rng, 2, 3, 4), opset=13)


def test_old_softmax_over_one_wide_axis_needs_no_reshape():
    x = np.ones((1, 1000, 1, 1), np.float32)
    assert op_names(import_model(node_model("Softmax", [x], opset=9))) == ["softmax"]


def test_axis_out_of_range():
    with pytest.raises(ImportModelError, match="axis 3 is out of range for 2 dimensions"):
        import_model(node_model("Softmax", [np.ones((2, 2), np.float32)], axis=3))


@pytest.mark.parametrize("shape", [(4, 3, 5, 2), (6, 3)])
def test_batch_norm_in_training(shape: tuple[int, ...], rng: np.random.Generator):
    """The batch's own statistics, and running statistics updated with them."""
    x = rng.standard_normal(shape).astype(np.float32)
    parameters = [rng.uniform(0.5, 2, 3).astype(np.float32) for _ in range(4)]
    options = {"training_mode": 1, "momentum": 0.8, "outputs": 3, "opset": 15}
    check_node("BatchNormalization", x, *parameters, **options)
