"""Products and convolutions that store permuted results, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import tcopt
from running.examples import examples
from tcopt.compiler import lower, pipeline
from tcopt.dialects.te import CallOp
from tcopt.frontends.onnx import import_model

# Tolerance for sums of a few hundred terms in another order, relative to the largest value.
TOLERANCE = 1e-5


def model(nodes, weights, shape) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "permuted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def split_heads(batch: int, tokens: int, heads: int, width: int, perm) -> onnx.ModelProto:
    """A dense layer whose result is split into heads."""
    rng = np.random.default_rng(tokens)
    weights = {
        "w": rng.standard_normal((24, heads * width)).astype(np.float32),
        "b": rng.standard_normal(heads * width).astype(np.float32),
        "split": np.array([batch, tokens, heads, width]),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Reshape", ["a", "split"], ["s"]),
        helper.make_node("Transpose", ["s"], ["y"], perm=perm),
    ]
    return model(nodes, weights, [batch, tokens, 24])


def merge_heads(batch: int, tokens: int, heads: int, width: int) -> onnx.ModelProto:
    """A product for each head, and the concatenation of heads."""
    rng = np.random.default_rng(tokens)
    weights = {
        "v": rng.standard_normal((batch, heads, 24, width)).astype(np.float32),
        "merge": np.array([batch, tokens, heads * width]),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["m"]),
        helper.make_node("Transpose", ["m"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "merge"], ["y"]),
    ]
    return model(nodes, weights, [batch, heads, tokens, 24])


def convolution(channels: int, size: int, after: str, kernel: int = 3) -> onnx.ModelProto:
    """A strided convolution with an activation, followed by a permutation."""
    rng = np.random.default_rng(channels)
    weights = {"w": rng.standard_normal((channels, 16, kernel, kernel)).astype(np.float32) / 8}
    out = (size - 1) // 2 + 1
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[kernel // 2] * 4),
        helper.make_node("Relu", ["c"], ["r" if after else "y"]),
    ]
    if after == "tokens":
        weights["flat"] = np.array([1, channels, out * out])
        nodes.append(helper.make_node("Reshape", ["r", "flat"], ["f"]))
        nodes.append(helper.make_node("Transpose", ["f"], ["y"], perm=[0, 2, 1]))
    elif after == "shuffle":
        weights["split"] = np.array([1, 2, channels // 2, out, out])
        weights["back"] = np.array([1, channels, out, out])
        nodes.append(helper.make_node("Reshape", ["r", "split"], ["f"]))
        nodes.append(helper.make_node("Transpose", ["f"], ["t"], perm=[0, 2, 1, 3, 4]))
        nodes.append(helper.make_node("Reshape", ["t", "back"], ["y"]))
    elif after:
        nodes.append(helper.make_node(after, ["r"], ["y"], perm=[0, 2, 3, 1]))
    return model(nodes, weights, [1, 16, size, size])


def kernels(proto: onnx.ModelProto) -> list[str]:
    """Return the functions that a model calls on a CPU with 256-bit vectors."""
    module = import_model(proto)
    lower(module, [phase for phase in pipeline("cpu:haswell") if phase.name in ("graph", "te")])
    return [op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)]


def check(proto: onnx.ModelProto) -> None:
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = session.run(None, {"x": x})
    (actual,) = tcopt.compile(proto).run({"x": x})
    np.testing.assert_allclose(actual, expected, atol=TOLERANCE * np.abs(expected).max(), rtol=0)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (0, 2, 3, 1)])
@pytest.mark.parametrize(
    ("tokens", "heads", "width", "fused"),
    [(19, 3, 16, True), (197, 2, 32, True), (7, 3, 20, False), (5, 2, 7, False), (1, 4, 16, False)],
)
def test_heads(tokens: int, heads: int, width: int, fused: bool, perm) -> None:
    proto = split_heads(1, tokens, heads, width, perm)
    check(proto)
    if fused:
        assert kernels(proto) == ["fused_packed_matmul_add_reshape_transpose"]


@pytest.mark.parametrize(("batch", "tokens", "width"), [(1, 19, 16), (2, 6, 13), (1, 33, 5)])
def test_merged_heads(batch: int, tokens: int, width: int) -> None:
    proto = merge_heads(batch, tokens, 3, width)
    check(proto)
    assert kernels(proto) == ["fused_matmul_transpose"]


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("after", ["", "Transpose", "tokens", "shuffle"])
@pytest.mark.parametrize(("channels", "size"), [(24, 13), (20, 9)])
def test_convolutions(channels: int, size: int, after: str) -> None:
    proto = convolution(channels, size, after)
    check(proto)
    if channels == 24 and not after:
        assert kernels(proto)[-1] == "fused_blocked_conv_relu_layout_transform"


@settings(max_examples=examples(4), deadline=None)
@given(
    tokens=st.integers(2, 30),
    heads=st.integers(1, 4),
    width=st.sampled_from([1, 6, 8, 16, 20, 24]),
    perm=st.permutations(range(4)),
)
def test_any_order(tokens: int, heads: int, width: int, perm: list[int]) -> None:
    check(split_heads(2, tokens, heads, width, perm))
