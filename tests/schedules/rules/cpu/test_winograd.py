"""Winograd convolutions match direct ones within stated errors."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest

from checks.cpu_kernels import data, everything_parallel, run, scheduled, target
from models.winograd_weights import constant, of_phases, of_stride
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.graph.packed.winograd import WinogradConvOp, WinogradWeightsOp
from tcopt.dialects.te import api as te
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.winograd_plan import Problem, choose_plan

# Largest error relative to the largest result, for a few dozen channels.
ERRORS = {2: 1e-6, 4: 5e-6, 6: 3e-5}

# tile, images, input blocks, output blocks, height, width, pads, bits of a vector, parallel.
CASES = (
    (2, 1, 1, 1, 3, 3, (0, 0, 0, 0), 128, True),
    (2, 2, 3, 2, 7, 5, (1, 1, 1, 1), 256, True),
    (4, 2, 1, 2, 6, 6, (0, 0, 0, 0), 128, False),
    (4, 3, 1, 5, 5, 31, (0, 1, 1, 0), 128, True),
    (4, 1, 2, 4, 14, 14, (1, 1, 1, 1), None, False),
    (6, 1, 1, 2, 13, 8, (1, 1, 1, 1), 128, True),
    # Weights are larger than L2, and prefetched.
    (4, 1, 64, 24, 8, 8, (1, 1, 1, 1), 128, True),
)


@pytest.mark.nightly(every=5)
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_a_direct_convolution(case):
    tile, images, a, b, height, width, pads, bits, parallel = case
    lanes = (bits or 128) // 32
    x, w = data(images, a, height, width, lanes), data(b, a, 3, 3, lanes, lanes)
    shift = data(1, b, 1, 1, lanes)
    weights = WinogradWeightsOp(constant(w), tile=tile)
    (transformed,) = weights.evaluate(w)
    conv = WinogradConvOp(constant(x), weights, tile=tile, pads=pads)
    conv.verify()
    direct = BlockedConvOp(constant(x), constant(w), pads=pads)
    expected = np.maximum(direct.compute(x.astype(np.float64), w.astype(np.float64)) + shift, 0)

    def expression(x: te.Tensor, w: te.Tensor, shift: te.Tensor) -> te.Tensor:
        y = conv.tensor_expression(x, w)
        return te.compute(
            y.shape,
            lambda n, o, h, w, lane: te.maximum(y[n, o, h, w, lane] + shift[0, o, 0, 0, lane], 0.0),
            name="epilogue",
        )

    arrays = (x, transformed, shift)
    with everything_parallel(parallel):
        (actual,) = run(arrays, expression, [expected.astype(np.float32)], bits)
    assert np.abs(actual - expected).max() <= ERRORS[tile] * np.abs(expected).max()
    (value,) = conv.evaluate(x, transformed)
    assert np.abs(np.maximum(value + shift, 0) - expected).max() <= ERRORS[tile] * expected.max()


# tile, kernel, stride, height, width, pads.
STRIDED = (
    (2, 5, 1, 5, 7, (2, 2, 2, 2)),
    (3, 4, 2, 13, 12, (-1, 0, 0, 0)),
    (5, 8, 4, 24, 28, (2, 2, 2, 2)),
)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("case", STRIDED)
def test_a_stride_makes_channels_of_which_each_has_taps_of_its_own(case):
    tile, kernel, step, height, width, pads = case
    x, w = data(2, 2, height, width, 4), data(3, 2, kernel, kernel, 4, 4)
    own = of_stride(w, step)
    weights = WinogradWeightsOp(constant(own), tile=tile)
    conv = WinogradConvOp(constant(x), weights, tile=tile, stride=step, pads=pads)
    direct = BlockedConvOp(constant(x), constant(w), strides=(step, step), pads=pads)
    check(conv, direct, x, w, weights.evaluate(own)[0])


# tile, phases, taps of each, their starts, height, width, pads.
PHASES = (
    (3, 2, 2, (1, 0), 4, 3, (1, 1, 1, 0)),
    (2, 3, 2, (1, 2), 3, 4, (1, 1, 1, 1)),
)


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("case", PHASES)
def test_tiles_hold_outputs_of_all_phases(case):
    tile, phases, taps, starts, height, width, pads = case
    x, w = data(2, 3, height, width, 4), data(2, phases, phases, 3, taps, taps, 4, 4)
    own = of_phases(w)
    weights = WinogradWeightsOp(constant(own), tile=tile, phases=phases)
    sizes = {"tile": tile, "phases": phases, "starts": starts, "pads": pads}
    conv = WinogradConvOp(constant(x), weights, **sizes)
    direct = BlockedConvTransposeOp(constant(x), constant(w), starts=starts, pads=pads)
    check(conv, direct, x, w, weights.evaluate(own)[0])


def check(conv, direct, x, w, transformed):
    """Natively and by numpy, within the errors of F(4, 3) for tiles with as many products."""
    conv.verify()
    assert conv.shape == direct.shape
    expected = direct.compute(x.astype(np.float64), w.astype(np.float64))
    arrays = (x, transformed)
    with everything_parallel():
        (actual,) = run(arrays, conv.tensor_expression, [expected.astype(np.float32)], 128)
    (value,) = conv.evaluate(*arrays)
    for each in (actual, value):
        assert np.abs(each - expected).max() <= ERRORS[4] * np.abs(expected).max()


def silu(y: te.Expr, _: te.Expr) -> te.Expr:
    return y / (1.0 + te.exp(-y))


def gelu(y: te.Expr, _: te.Expr) -> te.Expr:
    return y * 0.5 * (1.0 + te.erf(y * 0.5**0.5))


def mish_of_a_sum(y: te.Expr, other: te.Expr) -> te.Expr:
    total = y + other
    return total * te.tanh(te.log(1.0 + te.exp(total)))


def hard_swish(y: te.Expr, _: te.Expr) -> te.Expr:
    return y * te.minimum(te.maximum(y + 3.0, 0.0), 6.0) / 6.0


EPILOGUES = {
    silu: lambda y, _: y / (1 + np.exp(-y)),
    gelu: lambda y, _: y * 0.5 * (1 + np.vectorize(erf)(y * 0.5**0.5)),
    mish_of_a_sum: lambda y, o: (y + o) * np.tanh(np.log1p(np.exp(y + o))),
    hard_swish: lambda y, _: y * np.clip(y + 3, 0, 6) / 6,
}


def forms():
    """A convolution of each form, its direct one, and their weights."""
    x, w = data(1, 2, 7, 6, 4), data(3, 2, 3, 3, 4, 4)
    weights = WinogradWeightsOp(constant(w), tile=4)
    conv = WinogradConvOp(constant(x), weights, tile=4, pads=(1, 1, 1, 1))
    yield conv, BlockedConvOp(constant(x), constant(w), pads=(1, 1, 1, 1)), x, w, weights, w
    w = data(3, 2, 4, 4, 4, 4)
    own = of_stride(w, 2)
    weights = WinogradWeightsOp(constant(own), tile=3)
    conv = WinogradConvOp(constant(x[:, :, :6]), weights, tile=3, stride=2, pads=(1, 1, 1, 1))
    direct = BlockedConvOp(constant(x[:, :, :6]), constant(w), strides=(2, 2), pads=(1, 1, 1, 1))
    yield conv, direct, x[:, :, :6], w, weights, own
    w = data(3, 2, 2, 2, 2, 2, 4, 4)
    own = w.transpose(0, 3, 1, 4, 2, 5, 6, 7).reshape(3, 2, 4, 4, 4, 4)
    weights = WinogradWeightsOp(constant(own), tile=3, phases=2)
    sizes = {"tile": 3, "phases": 2, "starts": (1, 1), "pads": (1, 1, 1, 1)}
    conv = WinogradConvOp(constant(x), weights, **sizes)
    direct = BlockedConvTransposeOp(constant(x), constant(w), starts=(1, 1), pads=(1, 1, 1, 1))
    yield conv, direct, x, w, weights, own


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize("epilogue", EPILOGUES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("number", range(3), ids=("plain", "strided", "phases"))
def test_an_epilogue_may_read_results_several_times(number, epilogue):
    conv, direct, x, w, weights, own = list(forms())[number]
    (transformed,) = weights.evaluate(np.ascontiguousarray(own))
    x = np.ascontiguousarray(x)
    other = data(*conv.shape, seed=1)
    expected = direct.compute(x.astype(np.float64), w.astype(np.float64))
    expected = EPILOGUES[epilogue](expected, other.astype(np.float64))

    def expression(x: te.Tensor, w: te.Tensor, other: te.Tensor) -> te.Tensor:
        y = conv.tensor_expression(x, w)
        return te.compute(y.shape, lambda *i: epilogue(y[i], other[i]), name="epilogue")

    arrays = (x, transformed, other)
    assert scheduled(arrays, expression, target(128))[1] == "cpu-winograd"
    with everything_parallel():
        (actual,) = run(arrays, expression, [expected.astype(np.float32)], 128)
    assert np.abs(actual - expected).max() <= ERRORS[4] * np.abs(expected).max()


def stages_apart(y: te.Tensor) -> te.Tensor:
    """Two stages that both traverse the result, the second in another order."""
    long = te.compute(y.shape, lambda *i: te.exp(-te.maximum(y[i], 0.0)), name="long")
    shape = y.shape[0], y.shape[1], y.shape[3], y.shape[2], y.shape[4]
    return te.compute(
        shape, lambda n, o, w, h, b: long[n, o, h, w, b] + y[n, o, 0, w, b], name="turned"
    )


def with_a_sum(y: te.Tensor) -> te.Tensor:
    """A mean next to the transforms."""
    rows = te.reduce_axis(y.shape[2], "r")
    return te.compute(
        (y.shape[1], y.shape[3], y.shape[4]),
        lambda o, w, b: te.sum(y[0, o, rows, w, b], axis=[rows]),
        name="total",
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("behind", "rule"), [(stages_apart, "cpu-winograd"), (with_a_sum, "cpu-transforms")]
)
def test_what_follows_in_another_order_has_a_nest_of_its_own(behind, rule):
    conv, direct, x, w, weights, own = next(iter(forms()))
    (transformed,) = weights.evaluate(own)
    expected = direct.compute(x.astype(np.float64), w.astype(np.float64))
    if behind is with_a_sum:
        expected = expected.sum(axis=2)[0]
    else:
        turned = np.exp(-np.maximum(expected, 0)) + expected[:, :, :1]
        expected = turned.swapaxes(2, 3)

    def expression(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        return behind(conv.tensor_expression(x, w))

    arrays = (x, transformed)
    assert scheduled(arrays, expression, target(128))[1] == rule
    with everything_parallel():
        (actual,) = run(arrays, expression, [expected.astype(np.float32)], 128)
    assert np.abs(actual - expected).max() <= ERRORS[4] * np.abs(expected).max()


FACTS = CpuFacts(vector_bits=512, registers=32, cores=2, l2=1 << 20)


def test_many_tiles_are_taken_in_chunks():
    plan = choose_plan(Problem(1, 14, 14, 36, 4, 4, 16, 4), FACTS)
    assert not plan.shared
    assert plan.rows < 14


def test_few_tiles_share_their_data_so_that_weights_are_read_once():
    plan = choose_plan(Problem(1, 4, 4, 36, 16, 16, 16, 4), FACTS)
    assert plan.shared
    assert (plan.rows, plan.columns) == (4, 4)
