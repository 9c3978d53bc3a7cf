"""Integer Winograd convolutions match direct ones bit for bit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import i32

import tcopt
from checks.cpu_kernels import everything_parallel, run, scheduled, target
from models.winograd_weights import constant, in_groups, of_phases, of_stride
from running.examples import examples
from tcopt.backends.llvm.machine.host import default_target
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.graph.packed.winograd import WinogradConvOp, WinogradWeightsOp
from tcopt.passes.graph.winograd.exactness import inexact
from tcopt.passes.graph.winograd.winograd import UseWinograd, WinogradChoice
from tcopt.targets.cpu import MACHINES

TARGETS = ("haswell", "skylake-avx512")


def runs(name: str) -> bool:
    """Whether this machine has a CPU's vector width and instruction set."""
    host, named = default_target(), MACHINES[name]
    return host.triple == named.triple and host.vector_bits >= named.vector_bits


def integers(*shape, low=-128, high=127, seed=0):
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(np.int16)


# tile, images, input blocks, output blocks, height, width, pads, bits of a vector, parallel.
CASES = (
    (2, 1, 1, 1, 3, 3, (0, 0, 0, 0), 128, True),
    (2, 2, 3, 2, 7, 5, (1, 1, 1, 1), 256, True),
    (4, 2, 1, 2, 6, 6, (0, 0, 0, 0), 128, False),
    (4, 3, 1, 5, 5, 31, (0, 1, 1, 0), 128, True),
    (4, 1, 2, 4, 14, 14, (1, 1, 1, 1), None, False),
)


@pytest.mark.nightly(every=12)
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_a_direct_convolution(case, group):
    tile, images, a, b, height, width, pads, bits, parallel = case
    lanes = (bits or 128) // 32
    x = integers(images, a, height, width, lanes, low=-255, high=255)
    w = integers(b, a, 3, 3, lanes, lanes, low=-128, seed=1)
    assert inexact(tile, 3, (-255, 255), w) is None
    direct = BlockedConvOp(constant(x), constant(w), pads=pads, result_element=i32)
    (expected,) = direct.evaluate(x, w)
    (made,) = WinogradWeightsOp(constant(w), tile=tile).evaluate(w)
    weights = in_groups(made, group)
    conv = WinogradConvOp(constant(x), constant(weights), tile=tile, pads=pads)
    conv.verify()
    np.testing.assert_array_equal(conv.evaluate(x, weights)[0], expected)
    with everything_parallel(parallel):
        (actual,) = run((x, weights), conv.tensor_expression, [expected], bits)
    np.testing.assert_array_equal(actual, expected)


def test_weights_are_transformed_alike_by_expression():
    w = integers(2, 1, 3, 3, 4, 4)
    op = WinogradWeightsOp(constant(w), tile=4)
    (expected,) = op.evaluate(w)
    (actual,) = run((w,), op.tensor_expression, [expected])
    np.testing.assert_array_equal(actual, expected)


def test_strides_make_channels():
    x, w = integers(1, 2, 13, 12, 4), integers(3, 2, 4, 4, 4, 4, seed=1)
    own = of_stride(w, 2)
    (made,) = WinogradWeightsOp(constant(own), tile=3).evaluate(own)
    weights = in_groups(made, 2)
    sizes = {"stride": 2, "pads": (-1, 0, 0, 0)}
    conv = WinogradConvOp(constant(x), constant(weights), tile=3, **sizes)
    direct = BlockedConvOp(
        constant(x), constant(w), strides=(2, 2), pads=(-1, 0, 0, 0), result_element=i32
    )
    (expected,) = direct.evaluate(x, w)
    np.testing.assert_array_equal(conv.evaluate(x, weights)[0], expected)
    (actual,) = run((x, weights), conv.tensor_expression, [expected], 128)
    np.testing.assert_array_equal(actual, expected)


def test_phases_of_a_transposed_convolution():
    x, w = integers(2, 3, 4, 3, 4), integers(2, 2, 2, 3, 2, 2, 4, 4, seed=1)
    own = of_phases(w)
    (weights,) = WinogradWeightsOp(constant(own), tile=3, phases=2).evaluate(own)
    sizes = {"starts": (1, 0), "pads": (1, 1, 1, 0)}
    conv = WinogradConvOp(constant(x), constant(weights), tile=3, phases=2, **sizes)
    direct = BlockedConvTransposeOp(constant(x), constant(w), **sizes, result_element=i32)
    (expected,) = direct.evaluate(x, w)
    np.testing.assert_array_equal(conv.evaluate(x, weights)[0], expected)
    (actual,) = run((x, weights), conv.tensor_expression, [expected], 128)
    np.testing.assert_array_equal(actual, expected)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from([(2, 3), (4, 3), (2, 2), (3, 2)]),
    st.integers(0, 400),
    st.integers(0, 4000),
    st.integers(1, 16),
)
def test_what_is_called_exact_is_so_at_the_limits(form, data, weight, blocks):
    tile, taps = form
    # All terms of a sum have the maximum magnitude, and results of both signs are extreme.
    signs = np.random.default_rng(0).choice([-1, 1], (taps + tile, taps + tile))
    x = np.empty((1, blocks, taps + tile, taps + tile, 4), np.int16)
    x[...] = (signs * data)[None, None, :, :, None]
    w = np.empty((1, blocks, taps, taps, 4, 4), np.int16)
    w[...] = (signs[:taps, :taps] * weight)[None, None, :, :, None, None]
    if inexact(tile, taps, (-data, data), w) is not None:
        return
    (weights,) = WinogradWeightsOp(constant(w), tile=tile).evaluate(w)
    conv = WinogradConvOp(constant(x), constant(weights), tile=tile)
    direct = BlockedConvOp(constant(x), constant(w), result_element=i32)
    np.testing.assert_array_equal(conv.evaluate(x, weights)[0], direct.evaluate(x, w)[0])


def test_the_largest_sums_are_exact_and_one_more_channel_is_refused():
    # 64 times a sum needs 32 bits.
    largest, terms = (1 << 31) // 64 // (255 * 255), 9
    channels = largest // terms
    for blocks, exact in ((channels // 4, True), (channels // 4 + 1, False)):
        w = np.full((1, blocks, 3, 3, 4, 4), 255, np.int16)
        reason = inexact(4, 3, (0, 255), w)
        assert (reason is None) == exact
        assert exact or "exceed 32 bits" in str(reason)
    w = np.full((1, channels // 4, 3, 3, 4, 4), 255, np.int16)
    x = np.full((1, channels // 4, 6, 6, 4), 255, np.int16)
    (weights,) = WinogradWeightsOp(constant(w), tile=4).evaluate(w)
    conv = WinogradConvOp(constant(x), constant(weights), tile=4)
    direct = BlockedConvOp(constant(x), constant(w), result_element=i32)
    np.testing.assert_array_equal(conv.evaluate(x, weights)[0], direct.evaluate(x, w)[0])


def quantized(channels, outputs, height, width, zero, pads, groups=1):
    """An 8-bit convolution in QDQ form, with a bias and ReLU."""
    rng = np.random.default_rng(3)
    constants = {
        "xs": np.float32(0.02),
        "xz": np.uint8(zero),
        "w": rng.integers(-127, 128, (outputs, channels // groups, 3, 3)).astype(np.int8),
        "ws": (rng.random(outputs) * 0.002 + 0.0005).astype(np.float32),
        "wz": np.zeros(outputs, np.int8),
        "b": rng.standard_normal(outputs).astype(np.float32),
        "ys": np.float32(0.05),
        "yz": np.uint8(3),
    }
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["x", "xs", "xz"], ["xd"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        node("Conv", ["xd", "wd", "b"], ["c"], pads=pads, group=groups),
        node("Relu", ["c"], ["r"]),
        node("QuantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    bytes_ = TensorProto.UINT8
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", bytes_, [1, channels, height, width])],
        [helper.make_tensor_value_info("y", bytes_, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


# tile, channels, outputs, height, width, zero point, pads, groups.
LAYERS = (
    (2, 16, 24, 12, 9, 0, (1, 1, 1, 1), 1),
    (4, 13, 7, 7, 15, 255, (0, 2, 1, 0), 1),
    (4, 32, 32, 8, 8, 121, (1, 1, 1, 1), 2),
)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", TARGETS)
def test_quantised_layers_give_the_same_bytes(name, layer, monkeypatch):
    if not runs(name):
        pytest.skip(f"code for {name} does not run here")
    wanted, *shape, zero, pads, groups = layer
    model = quantized(*shape, zero, pads, groups)
    x = np.random.default_rng(5).integers(0, 256, (1, *shape[:1], *shape[2:])).astype(np.uint8)
    found, seen = [], []
    for tile in (0, wanted):

        def choose(self, op, form, costs, tiles, rounded, tile=tile):
            seen.append(list(tiles))
            return WinogradChoice(tile) if tile else None

        monkeypatch.setattr(UseWinograd, "choose", choose)
        found.append(tcopt.compile(model, f"cpu:{name}").run({"x": x}))
    assert seen == [[2, 4]] * 2
    direct, tiled = (each[0] for each in found)
    assert len(np.unique(direct)) > 50
    np.testing.assert_array_equal(tiled, direct)


def test_pairs_are_what_the_rule_for_tiles_takes():
    x, w = integers(1, 2, 12, 12, 8), integers(2, 2, 3, 3, 8, 8)
    (made,) = WinogradWeightsOp(constant(w), tile=4).evaluate(w)
    weights = in_groups(made, 2)
    conv = WinogradConvOp(constant(x), constant(weights), tile=4, pads=(1, 1, 1, 1))
    assert scheduled((x, weights), conv.tensor_expression, target(256))[1] == "cpu-winograd"
