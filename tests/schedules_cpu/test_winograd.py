"""Convolutions through transformed tiles compute what direct ones do, within stated errors."""

from __future__ import annotations

import numpy as np
import pytest

from schedules_cpu.kernels import data, everything_parallel, run
from tcopt.dialects.graph import ConstantOp
from tcopt.dialects.graph.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.graph.types import like
from tcopt.dialects.graph.winograd import WinogradConvOp, WinogradWeightsOp
from tcopt.dialects.te import api as te
from tcopt.schedules.cpu.facts import CpuFacts
from tcopt.schedules.cpu.winograd_plan import Problem, choose_plan

# Largest error over the largest result, for a few dozen channels.
ERRORS = {2: 1e-6, 4: 5e-6, 6: 3e-5}

# tile, images, input blocks, output blocks, height, width, pads, bits of a vector, parallel.
CASES = (
    (2, 1, 1, 1, 3, 3, (0, 0, 0, 0), 128, True),
    (2, 2, 3, 2, 7, 5, (1, 1, 1, 1), 256, True),
    (4, 2, 1, 2, 6, 6, (0, 0, 0, 0), 128, False),
    (4, 3, 1, 5, 5, 31, (0, 1, 1, 0), 128, True),
    (4, 1, 2, 4, 14, 14, (1, 1, 1, 1), None, False),
    (6, 1, 1, 2, 13, 8, (1, 1, 1, 1), 128, True),
    # Weights are larger than the second cache, and prefetched.
    (4, 1, 64, 24, 8, 8, (1, 1, 1, 1), 128, True),
)


def constant(array):
    return ConstantOp.weight("v", like(array)).results[0]


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


@pytest.mark.parametrize("case", STRIDED)
def test_a_stride_makes_channels_of_which_each_has_taps_of_its_own(case):
    tile, kernel, step, height, width, pads = case
    x, w = data(2, 2, height, width, 4), data(3, 2, kernel, kernel, 4, 4)
    taps = kernel // step
    own = w.reshape(3, 2, taps, step, taps, step, 4, 4).transpose(0, 1, 3, 5, 2, 4, 6, 7)
    own = own.reshape(3, 2 * step * step, taps, taps, 4, 4)
    weights = WinogradWeightsOp(constant(own), tile=tile)
    conv = WinogradConvOp(constant(x), weights, tile=tile, stride=step, pads=pads)
    direct = BlockedConvOp(constant(x), constant(w), strides=(step, step), pads=pads)
    check(conv, direct, x, w, weights.evaluate(own)[0])


# tile, phases, taps of each, their starts, height, width, pads.
PHASES = (
    (3, 2, 2, (1, 0), 4, 3, (1, 1, 1, 0)),
    (2, 3, 2, (1, 2), 3, 4, (1, 1, 1, 1)),
)


@pytest.mark.parametrize("case", PHASES)
def test_tiles_hold_outputs_of_all_phases(case):
    tile, phases, taps, starts, height, width, pads = case
    x, w = data(2, 3, height, width, 4), data(2, phases, phases, 3, taps, taps, 4, 4)
    own = w.transpose(0, 3, 1, 4, 2, 5, 6, 7).reshape(2, 3, *[phases * taps] * 2, 4, 4)
    weights = WinogradWeightsOp(constant(own), tile=tile, phases=phases)
    sizes = {"tile": tile, "phases": phases, "starts": starts, "pads": pads}
    conv = WinogradConvOp(constant(x), weights, **sizes)
    direct = BlockedConvTransposeOp(constant(x), constant(w), starts=starts, pads=pads)
    check(conv, direct, x, w, weights.evaluate(own)[0])


def check(conv, direct, x, w, transformed):
    """Natively and by numpy, within the errors of F(4, 3) where tiles have as many products."""
    conv.verify()
    assert conv.shape == direct.shape
    expected = direct.compute(x.astype(np.float64), w.astype(np.float64))
    arrays = (x, transformed)
    with everything_parallel():
        (actual,) = run(arrays, conv.tensor_expression, [expected.astype(np.float32)], 128)
    (value,) = conv.evaluate(*arrays)
    for each in (actual, value):
        assert np.abs(each - expected).max() <= ERRORS[4] * np.abs(expected).max()


FACTS = CpuFacts(vector_bits=512, registers=32, cores=2, l2=1 << 20)


def test_many_tiles_are_taken_in_chunks():
    plan = choose_plan(Problem(1, 14, 14, 36, 4, 4, 16, 4), FACTS)
    assert not plan.shared
    assert plan.rows < 14


def test_few_tiles_share_their_data_so_that_weights_are_read_once():
    plan = choose_plan(Problem(1, 4, 4, 36, 16, 16, 16, 4), FACTS)
    assert plan.shared
    assert (plan.rows, plan.columns) == (4, 4)
