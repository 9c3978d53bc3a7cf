"""On random shapes, kernels of the CPU rules for single ops match numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from xdsl.utils.exceptions import VerifyException

from checks.cpu_kernels import check, check_op, data, everything_parallel
from running.examples import examples
from tcopt.dialects import graph
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.te import api as te

FEW = settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))

# Sizes below, at and around vectors of 4, 8 and 16, and primes.
SIZES = (1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 19, 31, 32, 33, 48, 67)
size = st.sampled_from(SIZES)
small = st.integers(1, 3)
widths = st.sampled_from([128, 256, None])


def run(make, *arrays, bits, parallel=True):
    """Check an op; combinations that no op accepts are skipped."""
    try:
        with everything_parallel(parallel):
            check_op(make, *arrays, bits=bits)
    except VerifyException:
        assume(False)


@st.composite
def shapes(draw, max_rank=4, max_elements=6000):
    shape: list[int] = []
    for _ in range(draw(st.integers(1, max_rank))):
        fitting = [n for n in SIZES if n * math.prod(shape) <= max_elements]
        shape.append(draw(st.sampled_from(fitting)))
    return tuple(shape)


@st.composite
def windows(draw):
    rank = draw(st.sampled_from([1, 2, 2]))
    many = st.lists(st.sampled_from([1, 1, 2, 3]), min_size=rank, max_size=rank)
    pads = draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    kernel = draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=rank, max_size=rank))
    extents = draw(st.lists(st.sampled_from(SIZES[:12]), min_size=rank, max_size=rank))
    options = {"strides": draw(many), "dilations": draw(many), "pads": pads}
    return kernel, extents, options


@FEW
@given(size, size, size, st.booleans(), st.booleans(), st.sampled_from([(), (2,), (3, 1)]), widths)
def test_matmul(rows, columns, inner, transpose_a, transpose_b, batch, bits):
    left = (inner, rows) if transpose_a else (rows, inner)
    right = (columns, inner) if transpose_b else (inner, columns)
    run(
        lambda a, b: graph.MatmulOp(a, b, transpose_a=transpose_a, transpose_b=transpose_b),
        data(*batch, *left),
        data(*right, seed=1),
        bits=bits,
    )


@FEW
@given(
    windows(),
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from([1, 2, 3, 8]),
    st.sampled_from([1, 3, 5, 8, 17]),
    small,
    widths,
)
def test_convolution(window, groups, per_in, per_out, batch, bits):
    kernel, extents, options = window
    run(
        lambda x, w: graph.ConvOp(x, w, groups=groups, **options),
        data(batch, groups * per_in, *extents),
        data(groups * per_out, per_in, *kernel),
        bits=bits,
    )


@FEW
@given(windows(), st.sampled_from(SIZES[:10]), widths)
def test_depthwise_convolution(window, channels, bits):
    kernel, extents, options = window
    run(
        lambda x, w: graph.ConvOp(x, w, groups=channels, **options),
        data(1, channels, *extents),
        data(channels, 1, *kernel),
        bits=bits,
    )


@FEW
@given(windows(), st.sampled_from(["full", "plain", "depthwise"]), small, small, small, widths)
def test_blocked_convolution(window, form, blocks_in, blocks_out, batch, bits):
    kernel, extents, options = window
    lanes = 16 if bits is None else bits // 32
    x = (batch, 3, *extents) if form == "plain" else (batch, blocks_in, *extents, lanes)
    w = {
        "full": (blocks_out, blocks_in, *kernel, lanes, lanes),
        "plain": (blocks_out, 3, *kernel, lanes),
        "depthwise": (blocks_in, *kernel, lanes),
    }[form]
    run(
        lambda x, w: BlockedConvOp(x, w, plain=form == "plain", **options),
        data(*x),
        data(*w),
        bits=bits,
    )


@FEW
@given(windows(), st.sampled_from(["max", "average"]), st.booleans(), st.booleans(), small, widths)
def test_pool(window, kind, include, ceil_mode, channels, bits):
    kernel, extents, options = window
    # Every window contains an element.
    pads = [min(p, k - 1) for p, k in zip(options["pads"], [*kernel, *kernel], strict=True)]
    assume(set(options["dilations"]) == {1} or not any(pads))

    def make(x):
        return graph.PoolOp(
            x,
            kind=kind,
            kernel=kernel,
            count_include_pad=include,
            ceil_mode=ceil_mode,
            **{**options, "pads": pads},
        )

    run(make, data(2, channels, *extents), bits=bits)


@FEW
@given(shapes(), st.data(), st.booleans(), widths)
def test_softmax(shape, rest, logarithm, bits):
    axis = rest.draw(st.integers(0, len(shape) - 1))
    op = graph.LogSoftmaxOp if logarithm else graph.SoftmaxOp
    run(lambda x: op(x, axis=axis), 3 * data(*shape), bits=bits)


@FEW
@given(shapes(), st.data(), widths)
def test_layer_norm(shape, rest, bits):
    axis = rest.draw(st.integers(0, len(shape) - 1))
    scale, bias = (data(*shape[axis:], seed=seed) for seed in (1, 2))
    run(lambda x, s, b: graph.LayerNormOp(x, s, b, axis=axis), data(*shape), scale, bias, bits=bits)


@FEW
@given(st.sampled_from([1, 2, 4]), shapes(max_rank=2, max_elements=1500), widths)
def test_group_norm(groups, extents, bits):
    arrays = data(2, 4, *extents), data(4, seed=1), data(4, seed=2)
    run(lambda x, s, b: graph.GroupNormOp(x, s, b, groups=groups), *arrays, bits=bits)


KINDS = ("sum", "mean", "max", "min", "l1", "l2", "sum_square", "log_sum_exp")


@FEW
@given(shapes(), st.data(), st.sampled_from(KINDS), st.booleans(), widths, st.booleans())
def test_reductions(shape, rest, kind, keepdims, bits, parallel):
    axes = rest.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    run(
        lambda x: graph.ReduceOp(x, kind=kind, axes=sorted(axes), keepdims=keepdims),
        data(*shape),
        bits=bits,
        parallel=parallel,
    )


@FEW
@given(shapes(), st.data(), st.sampled_from(["max", "min"]), st.booleans(), widths)
def test_positions_of_extrema(shape, rest, kind, select_last, bits):
    axis = rest.draw(st.integers(0, len(shape) - 1))
    # Few distinct values, so that there are ties.
    x = np.round(data(*shape))
    run(lambda x: graph.ArgReduceOp(x, kind=kind, axis=axis, select_last=select_last), x, bits=bits)


@FEW
@given(shapes(), st.data(), widths)
def test_transpose(shape, rest, bits):
    perm = rest.draw(st.permutations(range(len(shape))))
    run(lambda x: graph.TransposeOp(x, perm=perm), data(*shape), bits=bits)


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8"])
@pytest.mark.parametrize("shape", [(33, 20), (3, 50), (50, 3)])
@pytest.mark.parametrize("bits", [128, None])
def test_tiles_of_a_transposition(dtype, shape, bits):
    """Whole tiles, tiles with tails on either side, and rows narrower than a vector."""
    values = (data(*shape) * 30).astype(dtype)
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    run(lambda x: graph.TransposeOp(x, order), values, bits=bits)


@pytest.mark.parametrize("channels", [16, 35])
@pytest.mark.parametrize("bits", [128, 256, None])
def test_blocks_of_channels(channels, bits):
    """Converting channels to blocks and back is an identity."""
    values = data(1, channels, 5, 7)
    blocks = -(-channels // 8)
    with everything_parallel():
        check_op(lambda x: graph.LayoutTransformOp(x, src="NCHW", dst="NCHW8c"), values, bits=bits)
        blocked, shape = data(1, blocks, 5, 7, 8), values.shape
        check_op(
            lambda x: graph.LayoutTransformOp(x, src="NCHW8c", dst="NCHW", shape=shape),
            blocked,
            bits=bits,
        )


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64", "int8", "bool"])
def test_element_types(dtype):
    """The number of lanes follows the widest element of a block."""
    x = (10 * data(5, 37)).astype(dtype)
    y = (10 * data(37, seed=1)).astype(dtype)
    op = graph.AndOp if dtype == "bool" else graph.AddOp
    check_op(op, x, y, tolerance=2e-3 if dtype == "float16" else 2e-5)
    check_op(lambda x: graph.TransposeOp(x, perm=[1, 0]), x)


def test_mixed_widths():
    """Integers selected from floats by Booleans, in one block."""
    x, y = data(7, 21), data(7, 21, seed=1)

    def expression(a, b):
        return te.compute(
            (7, 21),
            lambda i, j: te.cast(te.select(a[i, j] < b[i, j], a[i, j] * 9, b[i, j] * -9), "i64"),
            name="y",
        )

    check([x, y], expression, np.where(x < y, x * 9, y * -9).astype(np.int64))


def epilogue(a, b, bias, skip):
    """A product, a bias, an activation and a residual."""
    rows, columns, inner = a.shape[0], b.shape[1], a.shape[1]
    k = te.reduce_axis(inner, "k")
    product = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="mm")
    biased = te.compute((rows, columns), lambda i, j: product[i, j] + bias[j], name="bias")
    return te.compute(
        (rows, columns),
        lambda i, j: te.maximum(biased[i, j], te.const(0.0, "f32")) + skip[i, j],
        name="out",
    )


@FEW
@given(size, size, size, widths, st.booleans())
def test_product_with_epilogue(rows, columns, inner, bits, parallel):
    a, b, bias = data(rows, inner), data(inner, columns, seed=1), data(columns, seed=2)
    skip = data(rows, columns, seed=3)
    expected = np.maximum(a @ b + bias, 0) + skip
    with everything_parallel(parallel):
        check([a, b, bias, skip], epilogue, expected, bits=bits)


def attention(q, k, v):
    """Two products with a softmax between them, all in one function."""
    tokens, width = q.shape
    c = te.reduce_axis(width, "c")
    t, u, s = (te.reduce_axis(tokens, name) for name in "tus")
    scores = te.compute((tokens, tokens), lambda i, j: te.sum(q[i, c] * k[j, c], axis=c), name="qk")
    top = te.compute((tokens,), lambda i: te.max(scores[i, t], axis=t), name="top")
    e = te.compute((tokens, tokens), lambda i, j: te.exp(scores[i, j] - top[i]), name="e")
    total = te.compute((tokens,), lambda i: te.sum(e[i, u], axis=u), name="total")
    p = te.compute((tokens, tokens), lambda i, j: e[i, j] / total[i], name="p")
    return te.compute((tokens, width), lambda i, d: te.sum(p[i, s] * v[s, d], axis=s), name="pv")


@FEW
@given(st.sampled_from(SIZES[:10]), st.sampled_from(SIZES[:10]), widths)
def test_several_contractions_in_one_function(tokens, width, bits):
    q, k, v = (data(tokens, width, seed=seed) for seed in range(3))
    scores = q @ k.T
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    with everything_parallel():
        check([q, k, v], attention, e / e.sum(axis=1, keepdims=True) @ v, bits=bits)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("bits", [128, None])
@pytest.mark.parametrize("length", [16, 100, 197])
def test_many_short_rows(length, bits):
    run(lambda x: graph.SoftmaxOp(x, axis=-1), data(4, 64, length), bits=bits)
