"""Resizing: elements loaded once, repeated or weighted in registers."""

from __future__ import annotations

import pytest

from checks.cpu_kernels import check_op, data, everything_parallel, kernel_text
from tcopt.dialects import graph


def nearest(*scales: float, **options):
    return lambda x: graph.ResizeOp(
        x, scales=(1, 1, *scales), mode="nearest", coordinate="asymmetric", **options
    )


@pytest.mark.parametrize("bits", [128, None])
@pytest.mark.parametrize(
    ("scales", "shape"),
    [
        ((2, 2), (2, 3, 5, 35)),
        ((1, 3), (1, 2, 4, 32)),
        ((3, 4), (1, 2, 3, 17)),
        ((1.5, 1.5), (1, 2, 6, 44)),
        ((0.5, 2), (1, 2, 7, 40)),
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


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    ("scales", "shape", "coordinate"),
    [
        ((2, 2), (1, 2, 5, 24), "half_pixel"),
        ((3, 1.5), (1, 1, 4, 40), "half_pixel"),
        ((0.5, 0.5), (1, 2, 9, 50), "half_pixel"),
        ((2, 2), (1, 2, 3, 17), "align_corners"),
    ],
)
def test_interpolates_as_numpy_does(scales, shape, coordinate, mode):
    def make(x):
        return graph.ResizeOp(x, scales=(1, 1, *scales), mode=mode, coordinate=coordinate)

    with everything_parallel():
        check_op(make, data(*shape), bits=128)


def test_doubling_by_interpolation_reads_and_writes_whole_vectors():
    def make(x):
        return graph.ResizeOp(x, scales=(1, 1, 2, 2), mode="linear")

    text = kernel_text(make, data(1, 2, 8, 64), bits=128)
    down = text[text.index("scf.parallel") if "scf.parallel" in text else text.rindex("scf.for") :]
    # Horizontally with zeros beyond the edges, each row once; vertically, whole vectors alone.
    assert "vector.maskedload" in text
    assert "vector.maskedload" not in down
    assert "vector.gather" not in text
    assert "vector.scatter" not in text


@pytest.mark.parametrize("strides", [(2, 2), (1, 3), (2, 5)])
@pytest.mark.parametrize("width", [2, 3, 4])
def test_short_rows_are_moved_one_by_one(strides, width):
    """The unrolled row determines which element is read, and whether it is zero."""
    output = [3 * s - s // 2 for s in strides[:-1]] + [(width - 1) * strides[-1] + 1]

    def make(x):
        return graph.InterleaveOp(x, strides=strides, starts=(0, 0), output=output, kept=(1, 1))

    with everything_parallel():
        check_op(make, data(2, 3, 3, width), bits=512)
    text = kernel_text(make, data(2, 3, 3, width), bits=512)
    assert "vector<" not in text
