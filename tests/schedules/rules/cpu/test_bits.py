"""Bit-packed words and convolutions on them: natively and interpreted, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from checks.cpu_kernels import check_op, kernel_text
from tcopt.dialects.graph.packed.bit_conv import BitConvOp
from tcopt.dialects.graph.packed.pack_bits import PackBitsOp
from tcopt.dialects.intrinsics import intrinsic
from tcopt.support.errors import UnsupportedError

SHAPES = [
    ((1, 4, 5, 3, 16), np.uint8, 2),
    ((1, 3, 5, 16), np.int8, 1),
    ((2, 3, 2, 2, 8), np.int8, 3),
    ((1, 1, 3, 2, 4), np.uint8, 2),
    ((5, 2, 32), np.int16, 4),
    ((3, 1, 7), np.uint8, 8),
    ((1, 2, 3, 1), np.uint8, 1),
]


def numbers(shape: tuple[int, ...], dtype: type[np.generic]) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(0).integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize(("shape", "dtype", "bits"), SHAPES, ids=str)
@pytest.mark.parametrize("width", [512, 128])
def test_words(shape: tuple[int, ...], dtype: type[np.generic], bits: int, width: int) -> None:
    check_op(lambda x: PackBitsOp(x, bits), numbers(shape, dtype), bits=width, tolerance=0)


def test_a_comparison_for_each_bit() -> None:
    x = numbers((1, 4, 5, 3, 16), np.uint8)
    assert "simd.pack_bits" in kernel_text(lambda value: PackBitsOp(value, 2), x)


@pytest.mark.parametrize("name", ["pack_bits_9x1x8", "pack_bits_2x3x16", "pack_bits_1x1x8_by_4"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UnsupportedError):
        intrinsic(name)


CONVOLUTIONS = {
    "two_by_one": ((1, 6, 5, 2, 2), (2, 2, 3, 3, 1, 16), {"pads": [1, 1, 1, 1]}),
    "one_by_two": ((2, 6, 7, 3, 1), (1, 3, 2, 2, 2, 16), {"strides": [2, 2]}),
    "signed": ((1, 4, 5, 1, 2), (2, 1, 1, 1, 2, 16), {"data_signed": True, "weights_signed": True}),
    "groups": ((1, 4, 5, 2, 1), (2, 1, 3, 3, 1, 16), {"groups": 2, "exclusive": True}),
    "row": ((1, 9, 2, 3), (3, 2, 1, 2, 16), {"exclusive": True, "weights_signed": True}),
    "dilated": ((1, 9, 9, 1, 1), (1, 1, 3, 3, 1, 16), {"dilations": [2, 2], "pads": [2] * 4}),
    "one_tap": ((1, 9, 4, 2), (3, 4, 1, 1, 16), {}),
    "few_channels": ((1, 6, 5, 1, 2), (1, 1, 3, 3, 1, 4), {"pads": [0, 1, 1, 0]}),
}


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("width", [512, 256])
def test_convolutions(name: str, width: int) -> None:
    data, weights, options = CONVOLUTIONS[name]
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 1 << 32, shape, np.uint32) for shape in (data, weights))
    check_op(lambda a, b: BitConvOp(a, b, **options), x, w, bits=width, tolerance=0)


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_counts_of_bits(name: str) -> None:
    """Convolutions with any window: taps are never confused with bit positions."""
    data, weights, options = CONVOLUTIONS[name]
    words = [np.zeros(shape, np.uint32) for shape in (data, weights)]
    text = kernel_text(lambda a, b: BitConvOp(a, b, **options), *words)
    assert "math.ctpop" in text
