"""Resizing to nearest neighbours: elements loaded once, repeated in registers."""

from __future__ import annotations

import pytest

from schedules_cpu.kernels import check_op, data, everything_parallel, kernel_text
from tcopt.dialects import graph


def nearest(*scales: float, **options):
    return lambda x: graph.ResizeOp(
        x, scales=(1, 1, *scales), mode="nearest", coordinate="asymmetric", **options
    )


@pytest.mark.parametrize("bits", [128, 256, None])
@pytest.mark.parametrize(
    ("scales", "shape"),
    [
        ((2, 2), (1, 3, 8, 16)),
        ((2, 2), (2, 3, 5, 35)),
        ((1, 3), (1, 2, 4, 32)),
        ((3, 4), (1, 2, 3, 17)),
        ((5, 5), (1, 1, 3, 19)),
        ((1.5, 1.5), (1, 2, 6, 44)),
        ((0.5, 2), (1, 2, 7, 40)),
        ((2, 0.75), (1, 2, 3, 64)),
    ],
)
def test_repeats_what_numpy_repeats(scales, shape, bits):
    with everything_parallel():
        check_op(nearest(*scales, nearest_mode="floor"), data(*shape), bits=bits)


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_integer_scales_are_shuffles_and_plain_stores(scale):
    text = kernel_text(nearest(scale, scale, nearest_mode="floor"), data(1, 2, 4, 64), bits=128)
    assert "vector.shuffle" in text
    assert "vector.scatter" not in text
    assert "memref.store" not in text
