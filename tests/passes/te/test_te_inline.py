"""te-inline: the remaining stages for typical programs."""

import numpy as np
import pytest

from tcopt.dialects.te import api as te
from tcopt.interpreters.te import run_func
from tcopt.passes.te.te_inline import inline_stages
from tcopt.support.ir.verify import verify


def inlined(inputs, outputs, **options):
    """Return stage names after the pass; results must not change."""
    function = te.func("f", inputs, outputs)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(x.shape).astype(np.float32) for x in inputs]
    before = run_func(function, arrays)
    inline_stages(function, **options)
    verify(function)
    for one, other in zip(run_func(function, arrays), before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return [stage.stage.data for stage in function.stages]


def pad(x, low=1, default=0.0, name="pad"):
    n, c, h, w = x.shape
    shape = (n, c, h + 2 * low, w + 2 * low)
    return te.compute(
        shape, lambda n, c, h, w: x.read((n, c, h - low, w - low), default=default), name=name
    )


def conv(x, w, name="conv"):
    n, c, h, v = x.shape
    o, _, r, s = w.shape
    kc, kr, ks = te.reduce_axis(c, "c"), te.reduce_axis(r, "r"), te.reduce_axis(s, "s")
    return te.compute(
        (n, o, h - r + 1, v - s + 1),
        lambda n, o, h, v: te.sum(x[n, kc, h + kr, v + ks] * w[o, kc, kr, ks], axis=[kc, kr, ks]),
        name=name,
    )


def each(x, function, name):
    return te.compute(x.shape, lambda *i: function(x[i]), name=name)


@pytest.fixture
def x():
    return te.placeholder((1, 4, 6, 6), name="x")


@pytest.fixture
def w():
    return te.placeholder((8, 4, 3, 3), name="w")


def test_a_convolution_keeps_its_padding_and_one_epilogue(x, w):
    b = te.placeholder((8,), name="b")
    c = conv(pad(x), w)
    bias = te.compute(c.shape, lambda n, o, h, v: c[n, o, h, v] + b[o], name="bias")
    relu = each(bias, lambda e: te.maximum(e, 0.0), "relu")
    assert inlined([x, w, b], relu) == ["pad", "conv", "relu"]


def test_an_activation_before_padding_joins_the_padding(x, w):
    relu = each(x, lambda e: te.maximum(e + 1.0, 0.0), "relu")
    assert inlined([x, w], conv(pad(relu), w)) == ["pad", "conv"]


def test_an_activation_in_front_of_a_convolution_stays(x, w):
    relu = each(x, lambda e: te.maximum(e, 0.0), "relu")
    assert inlined([x, w], conv(relu, w)) == ["relu", "conv"]


def test_a_transpose_in_front_of_a_convolution_goes(x, w):
    nhwc = te.placeholder((1, 6, 6, 4), name="nhwc")
    nchw = te.compute(x.shape, lambda n, c, h, v: nhwc[n, h, v, c], name="nchw")
    assert inlined([nhwc, w], conv(nchw, w)) == ["conv"]


def max_pool(x):
    r, s = te.reduce_axis(3, "r"), te.reduce_axis(3, "s")
    n, c, h, v = x.shape
    return te.compute(
        (n, c, h - 2, v - 2),
        lambda n, c, h, v: te.max(x[n, c, h + r, v + s], axis=[r, s]),
        name="pool",
    )


def test_padding_goes_into_pooling_on_request(x):
    padded = pad(x, default=float("-inf"))
    assert inlined([x], max_pool(padded)) == ["pool"]
    assert inlined([x], max_pool(padded), inline_padding=False) == ["pad", "pool"]


def test_softmax_keeps_the_exponential_that_is_read_twice():
    x = te.placeholder((4, 6), name="x")
    k, j = te.reduce_axis(6, "k"), te.reduce_axis(6, "j")
    top = te.compute((4,), lambda i: te.max(x[i, k], axis=k), name="max")
    shifted = te.compute((4, 6), lambda i, j: x[i, j] - top[i], name="sub")
    exp = each(shifted, te.exp, "exp")
    total = te.compute((4,), lambda i: te.sum(exp[i, j], axis=j), name="sum")
    result = te.compute((4, 6), lambda i, j: exp[i, j] / total[i], name="div")
    assert inlined([x], result) == ["max", "exp", "sum", "div"]


def test_a_variance_reads_its_differences_in_place():
    x = te.placeholder((4, 6), name="x")
    k, j = te.reduce_axis(6, "k"), te.reduce_axis(6, "j")
    total = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="sum")
    mean = each(total, lambda e: e / 6.0, "mean")
    diff = te.compute((4, 6), lambda i, j: x[i, j] - mean[i], name="diff")
    square = each(diff, lambda e: e * e, "square")
    var = te.compute((4,), lambda i: te.sum(square[i, j], axis=j), name="var")
    result = te.compute((4, 6), lambda i, j: diff[i, j] * te.rsqrt(var[i] / 6.0), name="norm")
    assert inlined([x], result) == ["sum", "mean", "var", "norm"]


def test_an_output_that_others_read_stays(x):
    relu = each(x, lambda e: te.maximum(e, 0.0), "relu")
    assert inlined([x], [each(relu, te.exp, "exp"), relu]) == ["relu", "exp"]


def test_unread_stages_disappear_and_equal_reads_merge():
    x = te.placeholder((4,), name="x")
    slow = each(x, te.tanh, "tanh")
    square = te.compute((4,), lambda i: slow[i] * slow[i], name="square")
    function = te.func("f", [x], square)
    inline_stages(function)
    (stage,) = function.stages
    assert [op.name for op in stage.body.block.ops] == [
        "te.read",
        "math.tanh",
        "arith.mulf",
        "te.yield",
    ]


def test_a_guarded_copy_passes_its_guard_on():
    x = te.placeholder((3, 5), name="x")
    flipped = te.compute((5, 3), lambda i, j: x[j, i], name="flip")
    padded = te.compute((7, 3), lambda i, j: flipped.read((i - 1, j), default=2.0), name="pad")
    function = te.func("f", [x], each(padded, te.exp, "exp"))
    inline_stages(function)
    (stage,) = function.stages
    assert [op.name for op in stage.body.block.ops] == ["te.read", "math.exp", "te.yield"]


def test_the_inside_of_a_border_is_a_stage():
    x = te.placeholder((8,), name="x")
    relu = each(x, lambda e: te.maximum(e, 0.0), "relu")
    padded = te.compute((10,), lambda i: relu.read(i - 1, default=0.0), name="pad")
    assert inlined([x], padded) == ["relu", "pad"]
    cropped = te.compute((6,), lambda i: relu.read(i + 1, default=0.0), name="crop")
    assert inlined([x], cropped) == ["crop"]


def test_a_guarded_slice_cannot_pass_its_guard_on():
    """An index outside the slice is inside the tensor."""
    x = te.placeholder((8,), name="x")
    middle = te.compute((4,), lambda i: x[i + 2], name="slice")
    padded = te.compute((6,), lambda i: middle.read(i - 1, default=2.0), name="pad")
    assert inlined([x], each(padded, te.exp, "exp")) == ["exp"]
