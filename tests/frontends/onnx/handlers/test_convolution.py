"""Convolution and transposed convolution, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node, node_model, op_names
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError

CASES = {
    "plain": {},
    "padded": {"pads": [1, 2, 0, 1]},
    "strided": {"strides": [2, 3], "pads": [1, 1, 1, 1]},
    "dilated": {"dilations": [2, 2], "pads": [2, 2, 2, 2]},
    "same_upper": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "same_lower": {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    "valid": {"auto_pad": "VALID", "strides": [2, 1]},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv(case: str, groups: int, rng: np.random.Generator):
    x = rng.standard_normal((2, 4, 9, 10)).astype(np.float32)
    w = rng.standard_normal((8, 4 // groups, 3, 3)).astype(np.float32)
    check_node("Conv", x, w, group=groups, **CASES[case])


@pytest.mark.parametrize("rank", [1, 3])
def test_conv_of_other_ranks_with_bias(rank: int, rng: np.random.Generator):
    x = rng.standard_normal((1, 3, *[7] * rank)).astype(np.float32)
    w = rng.standard_normal((5, 3, *[3] * rank)).astype(np.float32)
    b = rng.standard_normal(5).astype(np.float32)
    check_node("Conv", x, w, b, pads=[1] * 2 * rank)


TRANSPOSED = {
    "plain": {},
    "strided": {"strides": [2, 2]},
    "cropped": {"strides": [2, 2], "pads": [1, 0, 1, 2]},
    "extended": {"strides": [3, 2], "output_padding": [1, 1]},
    "dilated": {"dilations": [2, 1]},
    "output_shape": {"strides": [3, 2], "output_shape": [14, 9]},
    "output_shape_upper": {"strides": [3, 2], "output_shape": [13, 8], "auto_pad": "SAME_UPPER"},
    "same_upper": {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "same_lower": {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
}


@pytest.mark.parametrize("case", TRANSPOSED)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_transpose(case: str, groups: int, rng: np.random.Generator):
    x = rng.standard_normal((1, 4, 4, 4)).astype(np.float32)
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    b = rng.standard_normal(3 * groups).astype(np.float32)
    check_node("ConvTranspose", x, w, b, group=groups, **TRANSPOSED[case])


def test_bias_is_a_reshape_and_an_add():
    x, w, b = np.ones((1, 3, 4, 4)), np.ones((2, 3, 1, 1)), np.ones(2)
    arrays = [a.astype(np.float32) for a in (x, w, b)]
    module = import_model(node_model("Conv", arrays, constants=[1, 2]))
    assert op_names(module) == ["conv", "reshape", "add"]


X, W = np.ones((1, 4, 5, 5), np.float32), np.ones((2, 4, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": [0, 1]}, "strides .* below 1"),
        ({"dilations": [1]}, "dilations .* should have 2 entries"),
        ({"pads": [1, 1]}, "pads .* should have 4 entries"),
        ({"group": 0}, "groups"),
        ({"group": 3}, "groups"),
        ({"kernel_shape": [3, 2]}, "kernel_shape"),
        ({"auto_pad": "SOMETIMES"}, "auto_pad"),
        ({"auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]}, "exclude"),
    ],
)
def test_bad_attributes_name_the_node(attributes: dict, message: str):
    with pytest.raises(ImportModelError, match=f"Conv.*{message}.*node"):
        import_model(node_model("Conv", [X, W], **attributes))


def test_kernel_larger_than_the_data():
    with pytest.raises(ImportModelError, match="does not fit"):
        import_model(node_model("Conv", [X[:, :, :2], W]))


def test_channels_must_agree():
    with pytest.raises(ImportModelError, match="channels"):
        import_model(node_model("Conv", [X[:, :3], W]))
