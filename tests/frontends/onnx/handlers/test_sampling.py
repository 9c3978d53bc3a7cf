"""Operators that interpolate at computed positions, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node

RNG = np.random.default_rng(6)


def f32(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample(mode: str, padding: str, corners: int):
    grid = f32(2, 5, 4, 2, low=-1.6, high=1.6)
    options = {"mode": mode, "padding_mode": padding, "align_corners": corners, "opset": 16}
    check_node("GridSample", f32(2, 3, 6, 7), grid, **options)


def test_grid_sample_of_volumes():
    grid = f32(1, 3, 2, 4, 3, low=-1.3, high=1.3)
    check_node("GridSample", f32(1, 2, 4, 5, 3), grid, mode="linear", opset=20)


@pytest.mark.parametrize("group, parts", [(1, 1), (2, 1), (1, 2)])
def test_deformable_convolution(group: int, parts: int):
    x, w = f32(2, 4, 6, 5), f32(6, 4 // group, 3, 2)
    offset, mask = f32(2, parts * 12, 6, 4, low=-1.5, high=1.5), f32(2, parts * 6, 6, 4)
    options = {"group": group, "offset_group": parts, "pads": [1, 0, 1, 0], "opset": 19}
    check_node("DeformConv", x, w, offset, f32(6), mask, tolerance=3e-5, **options)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_roi_align(mode: str, coordinates: str):
    boxes = np.array([[0, 0, 9, 9], [3.2, 1.5, 4, 7], [2, 5, 30, 8.5]], np.float32)
    options = {"mode": mode, "coordinate_transformation_mode": coordinates, "spatial_scale": 0.7}
    batch, sizes = np.array([1, 0, 1]), {"output_height": 3, "output_width": 2}
    check_node("RoiAlign", f32(2, 3, 8, 9), boxes, batch, sampling_ratio=2, **sizes, **options)


def test_max_pool_with_places():
    x = RNG.permutation(2 * 3 * 7 * 8).astype(np.float32).reshape(2, 3, 7, 8)
    options = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}
    check_node("MaxPool", x, outputs=2, **options)
    check_node("MaxPool", x, outputs=2, storage_order=1, **options)


def test_max_unpool():
    places = np.array([[[[5, 7], [13, 15]]]], np.int64)
    check_node("MaxUnpool", f32(1, 1, 2, 2), places, kernel_shape=[2, 2], strides=[2, 2])


@pytest.mark.parametrize(
    ("channels", "image", "block", "options"),
    [
        (2, (5, 6), (2, 3), {"pads": [0, 1, 0, 0]}),
        (3, (12, 40), (4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        (2, (9, 11), (3, 3), {"strides": [3, 2], "dilations": [1, 3]}),
        (1, (8, 32), (4, 8), {"strides": [4, 8]}),
        (2, (70,), (3,), {}),
        (1, (4, 5, 6), (2, 2, 3), {"strides": [1, 2, 1], "pads": [1, 0, 0, 0, 1, 1]}),
    ],
)
def test_columns_to_images(channels: int, image: tuple, block: tuple, options: dict):
    rank = len(image)
    ones, pads = [1] * rank, options.get("pads", [0] * 2 * rank)
    strides, dilations = options.get("strides", ones), options.get("dilations", ones)
    rows = zip(image, block, strides, dilations, pads[:rank], pads[rank:], strict=True)
    positions = [(n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, d, a, b in rows]
    x = f32(2, channels * int(np.prod(block)), int(np.prod(positions)))
    sizes = np.array(image), np.array(block)
    check_node("Col2Im", x, *sizes, constants=[1, 2], opset=18, **options)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_max_roi_pool(scale: float, rng):
    """Regions beyond the image, of one element, and empty ones."""
    x = rng.standard_normal((2, 3, 7, 8)).astype(np.float32)
    corners = [[0, 1, 1, 6, 6], [1, 0, 0, 3, 3], [1, 5, 4, 12, 9], [0, 2, 2, 2, 2], [0, 9, 9, 9, 9]]
    rois = np.array(corners, np.float32)
    check_node("MaxRoiPool", x, rois, pooled_shape=[2, 3], spatial_scale=scale)
