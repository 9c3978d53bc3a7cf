"""Convolutions: results do not depend on the tile and loop order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from xdsl.ir import Operation

import tcopt
from checks.cpu_kernels import TOLERANCE, check_op, data, everything_parallel
from running.examples import examples
from tcopt.compiler import lower, pipeline
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.graph.packed.winograd import WinogradConvOp
from tcopt.frontends.onnx.importer import import_model
from tcopt.schedules.rules.cpu import deep_reduction
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.support.machines.register_tiles import TilePlan, TileProblem, candidate_tiles, plan_tile

FEW = settings(max_examples=examples(8), deadline=None)


@FEW
@given(
    extents=st.tuples(st.integers(3, 9), st.integers(3, 17)),
    blocks=st.tuples(st.integers(1, 2), st.integers(1, 5)),
    stride=st.integers(1, 2),
    kernel=st.sampled_from([1, 3]),
    parallel=st.booleans(),
    choice=st.integers(0, 1 << 16),
    outside=st.booleans(),
    deep=st.booleans(),
)
def test_any_tile_computes_the_same(
    extents, blocks, stride, kernel, parallel, choice, outside, deep
):
    def chosen(space: TileProblem, facts: CpuFacts) -> TilePlan:
        tiles = list(candidate_tiles(space, facts))
        return TilePlan(tiles[choice % len(tiles)], outside, 0.0)

    block = 8
    x = data(1, blocks[0], *extents, block)
    w = data(blocks[1], blocks[0], kernel, kernel, block, block)
    share = 1 << 40 if deep else deep_reduction.DEEP_SHARE
    with (
        mock.patch.object(deep_reduction, "plan_tile", chosen),
        mock.patch.object(deep_reduction, "DEEP_SHARE", share),
        mock.patch.object(deep_reduction, "MIN_TILES", 2),
        everything_parallel(parallel),
    ):
        check_op(lambda a, b: BlockedConvOp(a, b, strides=[stride] * 2), x, w, bits=256)


@st.composite
def convolutions(draw):
    """Node attributes, the shapes of data and weights, and whether it is transposed."""
    groups = draw(st.sampled_from([1, 1, 2, 8]))
    per_in, per_out = draw(st.sampled_from([1, 3, 4, 16])), draw(st.sampled_from([1, 5, 8, 17]))
    transposed = draw(st.booleans())
    kernel, stride = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    pad = draw(st.integers(0, kernel - 1))
    dilation = 1 if transposed else draw(st.integers(1, 2))
    extents = draw(st.tuples(st.integers(7, 15), st.integers(7, 15)))
    options = {
        "strides": [stride] * 2,
        "pads": [pad] * 4,
        "dilations": [dilation] * 2,
        "group": groups,
    }
    x = (draw(st.integers(1, 2)), groups * per_in, *extents)
    leading = (groups * per_in, per_out) if transposed else (groups * per_out, per_in)
    return options, x, (*leading, kernel, kernel), transposed


@pytest.mark.nightly(daily=["cpu"])
@pytest.mark.parametrize("target", ["cpu", "cpu:haswell"])
@settings(max_examples=examples(5), deadline=None)
@given(case=convolutions())
def test_convolutions_match_onnxruntime(target, case):
    options, shape, kernel, transposed = case
    compare(model_of("ConvTranspose" if transposed else "Conv", shape, kernel, options), target)


def model_of(
    operator: str, shape: Sequence[int], kernel: Sequence[int], options: Mapping[str, Any]
) -> onnx.ModelProto:
    """A convolution with a bias and a ReLU."""
    count = kernel[1] * options.get("group", 1) if operator == "ConvTranspose" else kernel[0]
    return helper.make_model(
        helper.make_graph(
            [
                helper.make_node(operator, ["x", "w", "b"], ["c"], **options),
                helper.make_node("Relu", ["c"], ["y"]),
            ],
            "convolution",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            [
                numpy_helper.from_array(data(*kernel, seed=1), "w"),
                numpy_helper.from_array(data(count), "b"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )


def compare(model: onnx.ModelProto, target: str) -> None:
    """Assert that a model with one input computes what onnxruntime does."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": data(*shape)}
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    expected = np.asarray(session.run(None, feeds)[0])
    (actual,) = tcopt.compile(model, target).run(feeds)
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE * scale)


def test_weights_larger_than_the_cache_stay_for_several_rows_of_tiles():
    facts = CpuFacts(vector_bits=512, registers=32, cores=2, l2=1 << 20)
    steps = 9 * 512
    plan = plan_tile(TileProblem(7, 7, 512, 16, steps, 1, 49 * 2048, steps * 2048), facts)
    assert plan.columns_outside
    assert plan.tile.spans > 1


@settings(max_examples=examples(4), deadline=None)
@given(
    extents=st.lists(st.integers(1, 6), min_size=1, max_size=2),
    strides=st.lists(st.integers(1, 4), min_size=2, max_size=2),
    taps=st.integers(1, 2),
    blocks=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    draws=st.data(),
)
def test_phases_of_transposed_convolutions(extents, strides, taps, blocks, draws):
    rank, block = len(extents), 8
    strides = strides[:rank]
    starts = [draws.draw(st.integers(0, stride - 1)) for stride in strides]
    pads = [draws.draw(st.integers(0, 1)) for _ in range(2 * rank)]
    room = [n + sum(pads[axis::rank]) for axis, n in enumerate(extents)]
    assume(min(room) > taps)
    x = data(1, blocks[0], *extents, block)
    w = data(blocks[1], *strides, blocks[0], *[taps] * rank, block, block)
    check_op(lambda a, b: BlockedConvTransposeOp(a, b, starts=starts, pads=pads), x, w, bits=256)


TRANSPOSED = {
    "twice the size": ((1, 24, 5, 6), (24, 40, 4, 4), {"strides": [2, 2], "pads": [1] * 4}),
    "taps apart": ((1, 8, 4, 4), (8, 16, 2, 2), {"strides": [2, 2]}),
    "a kernel filled up": (
        (2, 8, 5, 3),
        (8, 16, 3, 3),
        {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]},
    ),
    "strides of three": ((1, 9, 4, 4), (9, 16, 5, 5), {"strides": [3, 3], "pads": [1] * 4}),
    "one element": ((1, 10, 1, 1), (10, 16, 4, 4), {}),
    "one column": ((1, 8, 4, 1), (8, 16, 4, 3), {"strides": [2, 2], "pads": [1, 0, 1, 0]}),
}


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions_by_phases_match_onnxruntime(name):
    model = model_of("ConvTranspose", *TRANSPOSED[name])
    module = import_model(model)
    lower(module, pipeline("cpu:haswell")[:2])
    assert sum(map(is_by_phases, module.walk())) == 1
    compare(model, "cpu:haswell")


def is_by_phases(op: Operation) -> bool:
    """Whether an op is a transposed convolution in blocks, directly or by Winograd."""
    through_tiles = isinstance(op, WinogradConvOp) and op.phases.value.data > 1
    return through_tiles or isinstance(op, BlockedConvTransposeOp)


POINTWISE = {
    "flat": ((1, 24, 6, 10), (40, 24, 1, 1), {}),
    "a tail": ((2, 5, 7, 7), (9, 5, 1, 1), {}),
    "strided": ((1, 16, 15, 14), (24, 16, 1, 1), {"strides": [2, 2]}),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_convolutions_between_plain_data(name):
    model = model_of("Conv", *POINTWISE[name])
    module = import_model(model)
    lower(module, pipeline("cpu:haswell")[:2])
    assert not any(isinstance(op, BlockedConvOp | LayoutTransformOp) for op in module.walk())
    compare(model, "cpu:haswell")


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize(
    ("size", "kernel", "options"),
    [
        ((8, 8), (3, 3), {"dilations": [6, 6], "pads": [9, 8, 9, 4]}),
        ((9, 9), (5, 5), {"dilations": [5, 5], "pads": [10] * 4, "strides": [2, 2]}),
        ((12,), (3,), {"dilations": [20], "pads": [20, 20]}),
        # No tap reads the data, and the rest could not be padded in the same way.
        ((4,), (2,), {"dilations": [30], "pads": [20, 12]}),
        ((4,), (2,), {"dilations": [9], "pads": [8, 3]}),
    ],
)
def test_taps_that_read_pads_alone_are_left_out(size, kernel, options):
    x, w = data(1, 4, *size), data(6, 4, *kernel)
    net = [helper.make_node("Conv", ["x", "w"], ["y"], **options)]
    graph = helper.make_graph(
        net,
        "dilated",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (actual,) = tcopt.compile(model).run({"x": x})
    assert np.abs(actual - expected).max() <= TOLERANCE * max(np.abs(expected).max(), 1)
