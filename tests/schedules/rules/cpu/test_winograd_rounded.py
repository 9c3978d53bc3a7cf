"""Winograd convolutions with tiles rounded to 16 bits: bf16 products, f32 sums."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tcopt
from checks.cpu_kernels import everything_parallel, run, scheduled, target
from models import convolutional
from models.checks import run_reference
from models.light_models import random_inputs
from models.winograd_weights import constant, in_groups, of_phases, of_stride
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.graph.packed.winograd import WinogradConvOp, WinogradWeightsOp

BF16 = np.dtype(ml_dtypes.bfloat16)

# A bf16 has 8 significant bits. The errors of F(2, 3) are 1.5 times those of a direct convolution,
# those of F(4, 3) 4 times: the matrices have larger entries, and rounded values are added up.
GROWTH = {2: 2, 4: 6}


def whole(*shape, step=1, most=4, seed=0):
    """Random multiples of a number, as f32."""
    found = np.random.default_rng(seed).integers(-most, most + 1, shape) * step
    return found.astype(np.float32)


def rounded(weights, group):
    """Reshape bf16 weights [..., a, b] to [..., a / group, b, group]."""
    return in_groups(weights.astype(BF16), group)


def check(conv, direct, x, w, weights):
    """All values are multiples of a power of two that 8 bits represent, so nothing is rounded."""
    conv.verify()
    (expected,) = direct.evaluate(x, w)
    assert len(np.unique(expected)) > 9
    np.testing.assert_array_equal(conv.evaluate(x, weights)[0], expected)
    with everything_parallel():
        (actual,) = run((x, weights), conv.tensor_expression, [expected])
    np.testing.assert_array_equal(actual, expected)


# images, input blocks, output blocks, height, width, pads.
CASES = (
    (1, 1, 1, 3, 3, (0, 0, 0, 0)),
    (2, 3, 2, 7, 5, (1, 1, 1, 1)),
    (1, 2, 5, 5, 31, (0, 1, 1, 0)),
)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_numbers_of_few_bits_are_convolved_exactly(case, group):
    images, a, b, height, width, pads = case
    x, w = whole(images, a, height, width, 16), whole(b, a, 3, 3, 16, 16, step=4, most=2, seed=1)
    (made,) = WinogradWeightsOp(constant(w), tile=2).evaluate(w)
    weights = rounded(made, group)
    conv = WinogradConvOp(constant(x), constant(weights), tile=2, pads=pads)
    check(conv, BlockedConvOp(constant(x), constant(w), pads=pads), x, w, weights)


def test_strides_make_channels():
    x, w = whole(1, 2, 13, 12, 16), whole(3, 2, 4, 4, 16, 16, step=4, most=2, seed=1)
    own = of_stride(w, 2)
    (made,) = WinogradWeightsOp(constant(own), tile=2).evaluate(own)
    weights = rounded(made, 2)
    sizes = {"stride": 2, "pads": (-1, 0, 0, 0)}
    conv = WinogradConvOp(constant(x), constant(weights), tile=2, **sizes)
    direct = BlockedConvOp(constant(x), constant(w), strides=(2, 2), pads=(-1, 0, 0, 0))
    check(conv, direct, x, w, weights)


def test_phases_of_a_transposed_convolution():
    x, w = whole(2, 3, 4, 3, 16), whole(2, 2, 2, 3, 2, 2, 16, 16, step=4, most=2, seed=1)
    own = of_phases(w)
    (made,) = WinogradWeightsOp(constant(own), tile=2, phases=2).evaluate(own)
    weights = rounded(made, 2)
    sizes = {"starts": (1, 0), "pads": (1, 1, 1, 0)}
    conv = WinogradConvOp(constant(x), constant(weights), tile=2, phases=2, **sizes)
    check(conv, BlockedConvTransposeOp(constant(x), constant(w), **sizes), x, w, weights)


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("tile", GROWTH)
def test_errors_are_a_few_times_those_of_a_direct_convolution(tile):
    rng = np.random.default_rng(2)
    x = np.maximum(rng.standard_normal((1, 4, 16, 16, 16)), 0).astype(np.float32)
    w = rng.standard_normal((4, 4, 3, 3, 16, 16)).astype(np.float32)
    (made,) = WinogradWeightsOp(constant(w), tile=tile).evaluate(w)
    weights = rounded(made, 2)
    conv = WinogradConvOp(constant(x), constant(weights), tile=tile)
    direct = BlockedConvOp(constant(x), constant(w))
    expected = direct.compute(x.astype(np.float64), w.astype(np.float64))
    near = direct.compute(*(a.astype(BF16).astype(np.float64) for a in (x, w)))
    (actual,) = run((x, weights), conv.tensor_expression, [expected.astype(np.float32)])

    def error(found):
        return np.sqrt(((found - expected) ** 2).mean())

    assert error(near) / 8 < error(actual) < GROWTH[tile] * error(near)
    assert error(conv.evaluate(x, weights)[0]) < GROWTH[tile] * error(near)


def test_pairs_are_what_the_rule_for_tiles_takes():
    x, w = whole(1, 2, 12, 12, 8), whole(2, 2, 3, 3, 8, 8)
    (made,) = WinogradWeightsOp(constant(w), tile=4).evaluate(w)
    weights = rounded(made, 2)
    conv = WinogradConvOp(constant(x), constant(weights), tile=4, pads=(1, 1, 1, 1))
    assert scheduled((x, weights), conv.tensor_expression, target(256))[1] == "cpu-winograd"


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["residual_net", "unet"])
def test_networks_in_bf16_at_accuracy_fast(name):
    model = getattr(convolutional, name)()
    compiled = tcopt.compile(model, precision="bf16", accuracy="fast")
    feeds = random_inputs(model, 0)
    # Tolerance of test_precision.py, times the additional error of F(4, 3).
    tolerance = 2.0**-9 * GROWTH[4]
    for ours, theirs in zip(compiled.run(feeds), run_reference(model, feeds), strict=True):
        errors = (ours - theirs) / np.ptp(theirs)
        assert 2.0**-14 < np.sqrt((errors**2).mean()) <= tolerance
