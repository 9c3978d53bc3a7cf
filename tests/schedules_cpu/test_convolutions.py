"""Convolutions: whatever tile is chosen and however loops are ordered, results stay the same."""

from __future__ import annotations

from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import tcopt
from schedules_cpu.kernels import TOLERANCE, check_op, data, everything_parallel
from tcopt.dialects.graph.blocked_conv import BlockedConvOp
from tcopt.schedules.cpu import contraction
from tcopt.schedules.cpu.facts import CpuFacts
from tcopt.schedules.cpu.tiles import Plan, Space, candidate_tiles, plan_tile

FEW = settings(max_examples=8, deadline=None)


@FEW
@given(
    extents=st.tuples(st.integers(3, 9), st.integers(3, 17)),
    blocks=st.tuples(st.integers(1, 2), st.integers(1, 5)),
    stride=st.integers(1, 2),
    kernel=st.sampled_from([1, 3]),
    parallel=st.booleans(),
    choice=st.integers(0, 1 << 16),
    outside=st.booleans(),
)
def test_any_tile_computes_the_same(extents, blocks, stride, kernel, parallel, choice, outside):
    def chosen(space: Space, facts: CpuFacts) -> Plan:
        tiles = list(candidate_tiles(space, facts))
        return Plan(tiles[choice % len(tiles)], outside, 0.0)

    block = 8
    x = data(1, blocks[0], *extents, block)
    w = data(blocks[1], blocks[0], kernel, kernel, block, block)
    with mock.patch.object(contraction, "plan_tile", chosen), everything_parallel(parallel):
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


@pytest.mark.parametrize("target", ["cpu", "cpu:haswell"])
@settings(max_examples=5, deadline=None)
@given(case=convolutions())
def test_convolutions_match_onnxruntime(target, case):
    options, shape, kernel, transposed = case
    x, w = data(*shape), data(*kernel, seed=1)
    count = kernel[1] * options["group"] if transposed else kernel[0]
    operator = "ConvTranspose" if transposed else "Conv"
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node(operator, ["x", "w", "b"], ["c"], **options),
                helper.make_node("Relu", ["c"], ["y"]),
            ],
            "convolution",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            [numpy_helper.from_array(w, "w"), numpy_helper.from_array(data(count), "b")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    expected = np.asarray(session.run(None, {"x": x})[0])
    (actual,) = tcopt.compile(model, target).run({"x": x})
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE * scale)


def test_weights_larger_than_the_cache_stay_for_several_rows_of_tiles():
    facts = CpuFacts(512, 32, 2, 32 << 10, 1 << 20)
    steps = 9 * 512
    plan = plan_tile(Space(7, 7, 512, 16, steps, 1, 49 * 2048, steps * 2048), facts)
    assert plan.columns_outside
    assert plan.tile.spans > 1
