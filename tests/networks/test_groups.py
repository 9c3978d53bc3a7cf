"""Grouped convolutions of any group width, with surrounding operators, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import tcopt
from tcopt.compiler import lower, pipeline
from tcopt.frontends.onnx import import_model

# Tolerance for sums of a few hundred terms in another order, relative to the largest value.
TOLERANCE = 1e-5


def shuffled(channels: int, groups: int, size: int) -> onnx.ModelProto:
    """Two grouped 1x1 convolutions with a channel shuffle between them, and a residual."""
    rng = np.random.default_rng(channels)
    weights = [rng.standard_normal((channels, channels // groups, 1, 1)) for _ in range(2)]
    weights.append(rng.standard_normal((channels, 1, 3, 3)))
    values = {f"w{i}": w.astype(np.float32) / 4 for i, w in enumerate(weights)}
    values["b"] = rng.standard_normal(channels).astype(np.float32)
    values["split"] = np.array([1, groups, channels // groups, size, size])
    values["back"] = np.array([1, channels, size, size])
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b"], ["c"], group=groups),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Reshape", ["r", "split"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["t", "back"], ["u"]),
        helper.make_node("Conv", ["u", "w2"], ["d"], group=channels, pads=[1] * 4),
        helper.make_node("Conv", ["d", "w1", "b"], ["e"], group=groups),
        helper.make_node("Concat", ["e", "x"], ["j"], axis=1),
        helper.make_node("Relu", ["j"], ["y"]),
        helper.make_node("Add", ["e", "x"], ["z"]),
    ]
    return model(nodes, values, [1, channels, size, size], ["y", "z"])


def wide(channels: int, groups: int, size: int) -> onnx.ModelProto:
    """A grouped 3x3 convolution with a bias and an activation."""
    rng = np.random.default_rng(channels)
    weights = rng.standard_normal((channels, channels // groups, 3, 3)).astype(np.float32)
    values = {"w": weights / 16, "b": rng.standard_normal(channels).astype(np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], group=groups, pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    return model(nodes, values, [1, channels, size, size], ["y"])


def model(nodes, values, shape, outputs) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "groups",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, None) for y in outputs],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def check(network: onnx.ModelProto) -> None:
    x = np.random.default_rng(7).standard_normal(
        [d.dim_value for d in network.graph.input[0].type.tensor_type.shape.dim]
    )
    feeds = {"x": x.astype(np.float32)}
    expected = onnxruntime.InferenceSession(network.SerializeToString()).run(None, feeds)
    for ours, theirs in zip(tcopt.compile(network).run(feeds), expected, strict=True):
        scale = float(np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * scale)


def graph_ops(network: onnx.ModelProto) -> list[str]:
    module = import_model(network)
    lower(module, pipeline("cpu:haswell")[:2])
    return [op.name for op in module.walk()]


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize(("channels", "groups", "size"), [(136, 4, 7), (51, 3, 6)])
def test_narrow_groups(channels, groups, size) -> None:
    """Group widths that are not a multiple of a vector: data stays plain around them."""
    network = shuffled(channels, groups, size)
    names = graph_ops(network)
    assert names.count("graph.conv") == 2
    assert names.count("graph.layout_transform") == 2
    check(network)


def test_wide_groups() -> None:
    """Groups wide enough for Winograd are computed separately, each into its part of the result."""
    network = wide(128, 2, 24)
    names = graph_ops(network)
    assert names.count("graph.winograd_conv") == 2
    assert names.count("graph.relu") == 2
    check(network)
