"""Evaluation against explicit formulas, on small data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from checks.te_check import value
from tcopt.dialects import graph
from tcopt.dialects.graph.elementwise.numerics import erf

RNG = np.random.default_rng(3)


def evaluate(make, *arrays):
    return make(*(value(array) for array in arrays)).evaluate(*arrays)[0]


def test_erf_is_accurate_in_double_precision():
    x = np.concatenate([np.linspace(-6, 6, 4001), np.linspace(-0.03, 0.03, 401), [0.0, -0.0]])
    expected = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(erf(x), expected, rtol=5e-14, atol=1e-300)
    assert erf(np.array([np.inf, -np.inf])).tolist() == [1.0, -1.0]
    assert np.isnan(erf(np.array([np.nan])))[0]


def test_convolution_by_loops():
    x, w = RNG.standard_normal((1, 4, 5, 6)), RNG.standard_normal((4, 2, 3, 2))
    got = evaluate(
        lambda a, b: graph.ConvOp(a, b, strides=[2, 1], pads=[1, 0, 1, 1], groups=2), x, w
    )
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 1)])
    for o in range(4):
        for y in range(3):
            for z in range(6):
                first = o // 2 * 2
                window = padded[0, first : first + 2, 2 * y : 2 * y + 3, z : z + 2]
                assert got[0, o, y, z] == pytest.approx((window * w[o]).sum())


def test_transposed_convolution_is_the_adjoint_of_convolution():
    w = RNG.standard_normal((4, 3, 3, 3))
    options = {"strides": [2, 2], "pads": [1, 1, 0, 1], "dilations": [1, 2]}
    x, y = RNG.standard_normal((1, 3, 9, 10)), None
    forward = evaluate(lambda a, b: graph.ConvOp(a, b, **options), x, w)
    y = RNG.standard_normal(forward.shape)
    extents = [x.shape[2 + d] for d in range(2)]
    plain = evaluate(lambda a, b: graph.ConvTransposeOp(a, b, **options), y, w)
    extra = [n - m for n, m in zip(extents, plain.shape[2:], strict=True)]
    back = evaluate(lambda a, b: graph.ConvTransposeOp(a, b, output_pads=extra, **options), y, w)
    assert (forward * y).sum() == pytest.approx((x * back).sum())


def test_average_pool_counts():
    x = np.ones((1, 1, 4, 4), np.float32)
    options = {"kind": "average", "kernel": [3, 3], "pads": [1] * 4}
    assert (evaluate(lambda a: graph.PoolOp(a, **options), x) == 1).all()
    included = evaluate(lambda a: graph.PoolOp(a, count_include_pad=True, **options), x)
    assert included[0, 0, 0, 0] == pytest.approx(4 / 9)


def test_ceil_mode_drops_windows_that_start_in_the_end_pad():
    x = value(np.zeros((1, 1, 2, 2), np.float32))
    op = graph.PoolOp(
        x, kind="max", kernel=[1, 1], strides=[2, 2], pads=[0, 0, 1, 1], ceil_mode=True
    )
    assert op.shape == (1, 1, 2, 2)
    op = graph.PoolOp(x, kind="max", kernel=[2, 2], strides=[3, 3], ceil_mode=True)
    assert op.shape == (1, 1, 1, 1)


def test_layer_norm_normalizes():
    x = RNG.standard_normal((3, 50)) * 7 + 3
    ones = np.ones(50)
    y = evaluate(lambda *a: graph.LayerNormOp(*a, epsilon=0.0), x, ones)
    np.testing.assert_allclose(y.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(y.std(axis=1), 1)


def test_linear_resize_reproduces_a_line():
    x = np.arange(5, dtype=np.float64).reshape(1, 5)
    y = evaluate(
        lambda a: graph.ResizeOp(a, sizes=[1, 9], mode="linear", coordinate="align_corners"), x
    )
    np.testing.assert_allclose(y[0], np.linspace(0, 4, 9))


def test_nearest_upsampling_is_integer_division():
    op = graph.ResizeOp(value(np.zeros((1, 4))), scales=[1, 2], coordinate="asymmetric",
                        nearest_mode="floor")  # fmt: skip
    assert graph.images.resize_positions.fit_division(op.nearest(1), 0.5) is not None
    assert graph.images.resize_positions.fit_division(op.nearest(1)[:0], 1e44) is None
    np.testing.assert_array_equal(op.nearest(1), np.arange(8) // 2)
