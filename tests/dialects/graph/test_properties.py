"""On random shapes and attributes, the two definitions of an op agree."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from checks.te_check import check, value
from running.examples import examples
from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import broadcast_shapes

FEW = settings(max_examples=examples(25))
small = st.integers(1, 3)
count = st.sampled_from([1, 2, 0, 3])


def data(*shape):
    return np.random.default_rng(sum(shape)).uniform(-2, 2, shape).astype(np.float32)


def run(make, *arrays):
    try:
        op = make(*(value(array) for array in arrays))
    except VerifyException:
        assume(False)
        raise
    return check(op, arrays)


@st.composite
def windows(draw):
    """The rank, then a dictionary of window attributes."""
    rank = draw(st.integers(1, 2))
    many = st.lists(small, min_size=rank, max_size=rank)
    pads = st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank)
    return rank, {"strides": draw(many), "dilations": draw(many), "pads": draw(pads)}


@FEW
@given(windows(), small, count, count, st.lists(small, min_size=2, max_size=2), st.data())
def test_convolutions(window, groups, per_in, per_out, kernel, rest):
    rank, options = window
    extents = rest.draw(st.lists(st.integers(0, 8), min_size=rank, max_size=rank))
    x = data(rest.draw(count), groups * per_in, *extents)
    options = {**options, "groups": groups}
    forward = data(groups * per_out, per_in, *kernel[:rank])
    run(lambda a, b: graph.ConvOp(a, b, **options), x, forward)


@FEW
@given(windows(), small, count, count, st.lists(small, min_size=2, max_size=2), st.data())
def test_transposed_convolutions(window, groups, per_in, per_out, kernel, rest):
    rank, options = window
    extents = rest.draw(st.lists(st.integers(0, 5), min_size=rank, max_size=rank))
    extra = rest.draw(st.lists(st.integers(0, 2), min_size=rank, max_size=rank))
    x = data(rest.draw(count), groups * per_in, *extents)
    weights = data(groups * per_in, per_out, *kernel[:rank])
    options = {**options, "groups": groups, "output_pads": extra}
    run(lambda a, b: graph.ConvTransposeOp(a, b, **options), x, weights)


@FEW
@given(windows(), count, small, small, st.lists(small, min_size=2, max_size=2), st.data())
def test_products_of_windows(window, images, inputs, outputs, kernel, rest):
    rank, options = window
    phases = rest.draw(st.lists(small, min_size=rank, max_size=rank))
    starts = [rest.draw(st.integers(0, n - 1)) for n in phases]
    if any(starts):
        options = {**options, "dilations": None}
    extents = rest.draw(st.lists(st.integers(1, 8), min_size=rank, max_size=rank))
    x = data(images, inputs, *extents)
    weights = data(np.prod(phases), outputs, inputs * np.prod(kernel[:rank]))
    options = {**options, "kernel": kernel[:rank], "phases": phases, "starts": starts}
    run(lambda a, b: graph.WindowMatmulOp(a, b, **options), x, weights)


@FEW
@given(
    windows(), small, small, small, st.lists(st.integers(1, 5), min_size=2, max_size=2), st.data()
)
def test_transposed_convolutions_by_phases(window, groups, inputs, outputs, kernel, rest):
    rank, options = window
    extents = rest.draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank))
    extra = rest.draw(st.lists(st.integers(0, 2), min_size=rank, max_size=rank))
    x = data(1, groups * inputs, *extents)
    weights = data(groups * inputs, outputs, *kernel[:rank])
    options = {**options, "groups": groups}
    try:
        op = graph.ConvTransposeOp(value(x), value(weights), output_pads=extra, **options)
    except VerifyException:
        assume(False)
        raise
    parts = list(op.as_convolution() or [])
    assume(parts)
    known: dict[SSAValue, np.ndarray] = {op.x: x, op.w: weights}
    for part in parts:
        assert isinstance(part, graph.GraphOp)
        known[part.results[0]] = part.evaluate(*(known[v] for v in part.operands))[0]
    last = parts[-1].results[0]
    assert last.type == op.results[0].type
    np.testing.assert_allclose(known[last], op.evaluate(x, weights)[0], atol=1e-4)


@FEW
@given(small, st.lists(st.integers(1, 4), min_size=1, max_size=2), st.booleans(), st.data())
def test_interleaving(channels, extents, blocked, rest):
    strides = [rest.draw(small) for _ in extents]
    starts = [rest.draw(st.integers(0, n * s - 1)) for n, s in zip(extents, strides, strict=True)]
    output = [
        rest.draw(st.integers(1, n * s - start))
        for n, s, start in zip(extents, strides, starts, strict=True)
    ]
    groups = 1 if blocked else rest.draw(small)
    kept = [rest.draw(st.integers(1, s)) for s in strides]
    shape = (2, groups * int(np.prod(kept)) * channels, *extents, *((4,) if blocked else ()))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    options = {"strides": strides, "starts": starts, "output": output}
    run(lambda a: graph.InterleaveOp(a, groups=groups, kept=kept, **options), x)


@FEW
@given(windows(), st.lists(small, min_size=2, max_size=2), small, small)
def test_sums_of_taps(window, kernel, groups, channels):
    """A convolution equals a 1x1 convolution with all taps as channels, followed by sum_taps."""
    rank, options = window
    kernel, single = kernel[:rank], [1] * rank
    x, w = data(2, 2 * groups, 6, 5)[(..., *[0] * (2 - rank))], data(groups * channels, 2, *kernel)
    taps = w.reshape(groups, channels, 2, -1).transpose(0, 3, 1, 2).reshape(-1, 2, *single)
    apart = graph.ConvOp(value(x), value(taps), groups=groups)
    (products,) = apart.evaluate(x, taps)
    sums = run(lambda a: graph.SumTapsOp(a, kernel=kernel, groups=groups, **options), products)
    (wanted,) = graph.ConvOp(value(x), value(w), groups=groups, **options).evaluate(x, w)
    np.testing.assert_allclose(sums, wanted, atol=1e-4)


@FEW
@given(windows(), st.lists(small, min_size=2, max_size=2), st.booleans(), st.data())
def test_pools(window, kernel, ceil_mode, rest):
    rank, options = window
    extents = rest.draw(st.lists(st.integers(0, 8), min_size=rank, max_size=rank))
    kind = rest.draw(st.sampled_from(["max", "average", "lp"]))
    include = rest.draw(st.booleans())
    # The average of a window without input elements is undefined.
    assume(max(options["pads"]) < min(kernel[:rank]) or include)
    x = data(rest.draw(count), 2, *extents)

    def make(a):
        return graph.PoolOp(
            a,
            kind=kind,
            kernel=kernel[:rank],
            ceil_mode=ceil_mode,
            count_include_pad=include,
            **options,
        )

    with np.errstate(all="ignore"):
        run(make, x)


@FEW
@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4), st.data())
def test_reshapes(shape, rest):
    count = int(np.prod(shape))
    target = []
    while count > 1:
        factor = rest.draw(st.sampled_from([d for d in range(2, count + 1) if count % d == 0]))
        target.append(factor)
        count //= factor
    target.insert(rest.draw(st.integers(0, len(target))), 1)
    run(lambda a: graph.ReshapeOp(a, target), data(*shape))


@FEW
@given(*[st.lists(st.sampled_from([1, 3]), max_size=3)] * 2)
def test_broadcasting(a, b):
    result = run(graph.AddOp, data(*a), data(*b))
    assert result.shape == np.broadcast_shapes(a, b) == broadcast_shapes(a, b)


@FEW
@given(
    st.integers(1, 7),
    st.integers(1, 9),
    st.sampled_from(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]),
    st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
)
def test_nearest_resize(old, new, coordinate, nearest):
    run(
        lambda a: graph.ResizeOp(a, sizes=[1, new], coordinate=coordinate, nearest_mode=nearest),
        data(1, old),
    )


@FEW
@given(st.integers(1, 20), st.sampled_from([2, 4, 8]), st.sampled_from([2, 4, 8]))
def test_layouts(channels, first, second):
    x = data(1, channels, 2, 3)
    blocked = run(lambda a: graph.LayoutTransformOp(a, src="NCHW", dst=f"NCHW{first}c"), x)
    moved = run(
        lambda a: graph.LayoutTransformOp(a, src=f"NCHW{first}c", dst=f"NCHW{second}c"), blocked
    )
    back = run(
        lambda a: graph.LayoutTransformOp(a, src=f"NCHW{second}c", dst="NCHW", shape=x.shape),
        moved,
    )
    np.testing.assert_array_equal(back, x)


@FEW
@given(st.lists(count, min_size=1, max_size=3), st.data())
def test_reductions_and_norms(shape, rest):
    """Reductions and normalisations along an axis of any extent, including 0."""
    x, axis = data(*shape), rest.draw(st.integers(0, len(shape) - 1))
    run(lambda a: graph.SoftmaxOp(a, axis=axis), x)
    run(lambda a: graph.LogSoftmaxOp(a, axis=axis), x)
    for kind in ("sum", "mean", "max", "prod", "l2", "log_sum_exp"):
        run(lambda a, kind=kind: graph.ReduceOp(a, kind=kind, axes=[axis]), x)
    run(lambda a, b: graph.LayerNormOp(a, b, axis=axis), x, data(*shape[axis:]))
    run(lambda a, b: graph.MatmulOp(a, b), data(2, *shape[:1]), data(*shape[:1], 3))
