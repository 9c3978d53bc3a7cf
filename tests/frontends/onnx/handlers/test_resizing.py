"""Resize and Upsample, against onnxruntime."""

import numpy as np
import onnx.reference
import pytest

from models.checks import check_node, node_model, run_imported
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError, UnsupportedError

X = np.random.default_rng(0).standard_normal((1, 2, 4, 6)).astype(np.float32)
EMPTY = np.array([], np.float32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize("coordinate", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 0.5, 1.5)])
def test_nearest(coordinate: str, nearest: str, scales: tuple):
    check_node(
        "Resize",
        X,
        EMPTY,
        floats(*scales),
        constants=[1, 2],
        mode="nearest",
        nearest_mode=nearest,
        coordinate_transformation_mode=coordinate,
    )


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinate", ["half_pixel", "asymmetric", "pytorch_half_pixel"])
def test_interpolation_to_sizes(mode: str, coordinate: str):
    sizes = np.array([1, 2, 7, 9], np.int64)
    check_node(
        "Resize",
        X,
        None,
        None,
        sizes,
        constants=[3],
        mode=mode,
        coordinate_transformation_mode=coordinate,
    )


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_some_axes_with_a_policy(policy: str):
    sizes = np.array([8, 9], np.int64)
    check_node(
        "Resize",
        X,
        None,
        None,
        sizes,
        opset=18,
        constants=[3],
        axes=[2, 3],
        mode="linear",
        keep_aspect_ratio_policy=policy,
    )


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1, 1, 1.3, 0.7), (1, 1, 0.6, 2.4)])
def test_corners_of_extents_that_are_rounded(mode: str, scales: tuple):
    """The last element is at the corner, as in onnxruntime and PyTorch, but not in ONNX's text."""
    check_node(
        "Resize",
        X,
        EMPTY,
        floats(*scales),
        constants=[1, 2],
        mode=mode,
        coordinate_transformation_mode="align_corners",
    )


@pytest.mark.parametrize("sizes", [(7, 3), (3, 13)])
def test_half_pixels_of_nearest(sizes: tuple):
    check_node(
        "Resize",
        X,
        EMPTY,
        EMPTY,
        np.array([1, 2, *sizes]),
        opset=11,
        constants=[1, 2, 3],
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        nearest_mode="floor",
    )


def test_upsample_of_every_version():
    check_node("Upsample", X, opset=7, scales=[1.0, 1.0, 2.0, 3.0])
    check_node("Upsample", X, floats(1, 1, 2, 2), opset=9, mode="linear", constants=[1])
    check_node("Resize", X, floats(1, 1, 2, 0.5), opset=10, constants=[1])


def test_what_cannot_be_resized():
    sizes = np.array([1, 2, 8, 8], np.int64)
    both = node_model("Resize", [X, None, floats(1, 1, 2, 2), sizes], constants=[2, 3])
    with pytest.raises(ImportModelError, match="either scales or sizes"):
        import_model(both)
    negative = node_model("Resize", [X, None, floats(1, 1, -2, 2)], constants=[2])
    with pytest.raises(ImportModelError, match="not positive"):
        import_model(negative)
    smooth = node_model("Resize", [X, None, None, sizes], opset=18, constants=[3], antialias=1)
    with pytest.raises(UnsupportedError, match="antialias"):
        import_model(smooth)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_integers_between_integers(dtype: type):
    """The form in which onnxruntime's quantiser leaves bilinear upsampling; fractions are
    truncated."""
    x = np.random.default_rng(1).integers(0, 100, (1, 2, 4, 5)).astype(dtype)
    check_node("Resize", x, None, floats(1, 1, 2, 2), opset=18, constants=[2], mode="linear")


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_without_aliases(mode: str, exclude: int, rng: np.random.Generator):
    """Windows that grow as the result shrinks; an axis that grows has the usual windows."""
    if mode == "linear" and exclude:
        pytest.skip("the reference normalises linear windows before it cuts them off")
    x = rng.standard_normal((1, 2, 11, 6)).astype(np.float32)
    scales = np.array([1, 1, 0.37, 1.5], np.float32)
    model = node_model(
        "Resize", [x, None, scales], opset=18, constants=[2], mode=mode, antialias=1,
        exclude_outside=exclude,
    )  # fmt: skip
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x0": x})
    (actual,) = run_imported(model, {"x0": x})
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 40, 30), (1, 1, 12, 400)])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_narrow_and_wide_images_without_aliases(shape: tuple, mode: str, rng: np.random.Generator):
    """Windows along short and long rows, and over whole rows."""
    x = rng.standard_normal(shape).astype(np.float32)
    sizes = np.array([*shape[:2], shape[2] // 2, shape[3] // 3], np.int64)
    options = {"opset": 18, "constants": [3], "mode": mode, "antialias": 1}
    check_node("Resize", x, None, None, sizes, tolerance=1e-4, **options)
