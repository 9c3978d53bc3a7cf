"""Graphs with sizes, lowered for whole ranges, compute what graphs of these sizes compute."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from models.network import Network
from tcopt.compiler.driver import lower
from tcopt.compiler.pipeline import pipeline
from tcopt.dialects.graph.core.types import numpy_dtype, shape_of, type_of
from tcopt.frontends.onnx import import_model
from tcopt.interpreters.graph import run_module as run_graph
from tcopt.interpreters.te import run_module as run_te
from tcopt.passes.fix_sizes import fix_sizes
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.phases import up_to


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
    w = net.normal([8, 3, 3, 3], 0.2)
    x = net.add("Relu", net.add("Conv", x, w, net.normal([8], 0.1), strides=[2, 2]))
    x = net.add("AveragePool", x, kernel_shape=[2, 2])
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


CASES = {
    "mlp": (mlp, {"n": (1, 40)}, [{"n": 1}, {"n": 17}]),
    "few rows": (mlp, {"n": (1, 2)}, [{"n": 2}]),
    "network": (network, {"n": (1, 8)}, [{"n": 3}]),
    "images": (images, {"h": (8, 20), "w": (9, 30)}, [{"h": 9, "w": 14}, {"h": 20, "w": 9}]),
    "transformer": (transformer, {"b": (1, 4), "s": (1, 64)}, [{"b": 1, "s": 1}, {"b": 3, "s": 7}]),
    "length": (transformer, {"b": 2, "s": (1, 64)}, [{"s": 20}]),
    "last row": (last_row, {"s": (1, 9)}, [{"s": 1}, {"s": 5}]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_lowered_graphs(case):
    build, dims, values = case
    model = build()
    whole = import_model(model, dims=dims)
    lower(whole, up_to(pipeline("cpu"), "te"))
    verify(whole)
    for numbers in values:
        plain = import_model(model, dims={**dims, **numbers})
        feeds = _feeds(plain)
        fixed = whole.clone()
        fix_sizes(fixed, numbers)
        verify(fixed)
        for mine, wanted in zip(run_te(fixed, feeds), run_graph(plain, feeds), strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=2e-4, atol=2e-5)


def _feeds(module: ModuleOp) -> list[np.ndarray]:
    (main,) = (f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == "main")
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(shape_of(x)).astype(numpy_dtype(type_of(x).element_type))
        for x in main.body.block.args
    ]
