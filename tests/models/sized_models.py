"""Networks with open dimensions, ranges for these, and sizes in the ranges to run them with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from onnx import ModelProto

from models.network import Network
from tcopt.support.arithmetic.size_ranges import GivenSize


class SizedModel(NamedTuple):
    """A network, ranges of its dimensions, and sizes to run it with."""

    build: Callable[[], ModelProto]
    dims: Mapping[str, GivenSize]
    values: list[dict[str, int]]


def mlp() -> ModelProto:
    net = Network("mlp")
    x = net.input("x", ["n", 24])
    x = net.add("Relu", net.gemm(x, 24, 40))
    return finished(net, net.add("Softmax", net.gemm(x, 40, 10), axis=-1))


def network() -> ModelProto:
    net = Network("network")
    x = net.input("x", ["n", 3, 8, 8])
    for channels, more in ((3, 8), (8, 16)):
        w = net.normal([more, channels, 3, 3], 0.2)
        x = net.add("Relu", net.add("Conv", x, w, net.normal([more], 0.1), pads=[1, 1, 1, 1]))
        x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return finished(net, net.gemm(x, 16, 5))


def images() -> ModelProto:
    net = Network("images")
    x = net.input("x", [1, 3, "h", "w"])
    w, bias = net.normal([8, 3, 3, 3], 0.2), net.normal([8], 0.1)
    x = net.add("Relu", net.add("Conv", x, w, bias, strides=[2, 2], pads=[1, 1, 1, 1]))
    x = net.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return finished(net, net.add("ReduceMean", x, axes=[2, 3], keepdims=0))


def transformer() -> ModelProto:
    """A layer in the form of exporters, with a mask and learned positions."""
    net, width, heads = Network("transformer", opset=17), 16, 2
    x, mask = net.input("x", ["b", "s", width]), net.input("mask", ["b", "s"])
    shape = net.add("Shape", x)
    batch, length = (net.add("Gather", shape, net.ints(place)) for place in range(2))
    positions = net.add("Slice", net.normal([64, width], 0.2), net.ints(0), length, net.ints(0))
    x = net.add("Add", x, positions)

    def split(y: str) -> str:
        by_heads = net.add("Concat", batch, length, net.ints(heads, width // heads), axis=0)
        return net.add("Transpose", net.add("Reshape", y, by_heads), perm=[0, 2, 1, 3])

    q, k, v = (split(net.linear(x, width, width)) for _ in range(3))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.add("Div", scores, net.scalar(math.sqrt(width // heads)))
    hidden = net.add("Unsqueeze", net.add("Sub", net.scalar(1.0), mask), net.ints(1, 2))
    scores = net.add("Add", scores, net.add("Mul", hidden, net.scalar(-10000.0)))
    context = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
    joined = net.add("Concat", batch, length, net.ints(-1), axis=0)
    context = net.add("Reshape", net.add("Transpose", context, perm=[0, 2, 1, 3]), joined)
    x = net.layer_norm(net.add("Add", x, net.linear(context, width, width)), width)
    return finished(net, net.linear(net.add("Erf", x), width, 24))


def last_row() -> ModelProto:
    net = Network("last")
    x = net.input("x", ["s", 2, 8])
    shape = net.add("Shape", x)
    end = net.add("Gather", shape, net.ints(0))
    start = net.add("Sub", end, net.ints(1))
    both = net.add("Concat", x, net.add("Relu", x), x, axis=0)
    rows = net.add("Slice", both, start, net.ints(2**62), net.ints(0))
    return finished(net, net.add("ReduceSum", rows, net.ints(2), keepdims=0))


def finished(net: Network, result: str) -> ModelProto:
    model = net.model(**{result: []})
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def recurrent() -> ModelProto:
    net = Network("recurrent")
    x = net.input("x", [4, "n", 6])
    weights = net.normal([1, 32, 6], 0.3), net.normal([1, 32, 8], 0.3)
    return finished(net, net.add("LSTM", x, *weights, hidden_size=8))


def quantised() -> ModelProto:
    net = Network("quantised")
    x, scale = net.input("x", ["n", 16]), net.scalar(0.05)
    zero = net.weight(np.array(0, np.int8))
    weights = net.weight(net.rng.integers(-100, 100, (16, 24)).astype(np.int8))
    x = net.add("DequantizeLinear", net.add("QuantizeLinear", x, scale, zero), scale, zero)
    return finished(
        net, net.add("MatMul", x, net.add("DequantizeLinear", weights, net.scalar(0.01), zero))
    )


def with_past() -> ModelProto:
    """Attention over a cache and new positions."""
    net = Network("past")
    x, past = net.input("x", ["b", 2, "s", 8]), net.input("past", ["b", 2, "p", 8])
    whole = net.add("Concat", past, x, axis=2)
    scores = net.add("MatMul", x, net.add("Transpose", whole, perm=[0, 1, 3, 2]))
    return finished(net, net.add("MatMul", net.add("Softmax", scores, axis=-1), whole))


def causal() -> ModelProto:
    """Softmax of scores under a mask that is computed from positions."""
    net = Network("causal")
    x = net.input("x", ["s", "s"])
    zero, one = (net.weight(np.array(number, np.int64)) for number in range(2))
    length = net.add("Gather", net.add("Shape", x), zero)
    places = net.add("Range", zero, length, one)
    kept = net.add("LessOrEqual", places, net.add("Unsqueeze", places, net.ints(1)))
    return finished(net, net.add("Softmax", net.add("Where", kept, x, net.scalar(-1e9)), axis=-1))


SIZED_MODELS = {
    "mlp": SizedModel(mlp, {"n": (1, 40)}, [{"n": 1}, {"n": 17}]),
    "few rows": SizedModel(mlp, {"n": (1, 2)}, [{"n": 2}]),
    "network": SizedModel(network, {"n": (1, 8)}, [{"n": 3}]),
    "images": SizedModel(
        images, {"h": (8, 20), "w": (9, 30)}, [{"h": 9, "w": 14}, {"h": 20, "w": 9}]
    ),
    "transformer": SizedModel(
        transformer, {"b": (1, 4), "s": (1, 64)}, [{"b": 1, "s": 1}, {"b": 3, "s": 7}]
    ),
    "length": SizedModel(transformer, {"b": 2, "s": (1, 64)}, [{"s": 20}]),
    "last row": SizedModel(last_row, {"s": (1, 9)}, [{"s": 1}, {"s": 5}]),
    "recurrent": SizedModel(recurrent, {"n": (1, 9)}, [{"n": 1}, {"n": 4}]),
    "quantised": SizedModel(quantised, {"n": (1, 40)}, [{"n": 1}, {"n": 17}]),
    "past": SizedModel(
        with_past,
        {"b": (1, 3), "s": (1, 9), "p": (1, 30)},
        [{"b": 1, "s": 1, "p": 1}, {"b": 2, "s": 3, "p": 17}],
    ),
    "causal": SizedModel(causal, {"s": (1, 40)}, [{"s": 1}, {"s": 7}, {"s": 40}]),
}
