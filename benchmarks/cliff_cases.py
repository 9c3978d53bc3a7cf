"""Random networks and single layers, each drawn from a space of named choices.

A space lists the values of each field, the simplest first, so that a case is shrunk by moving its
fields to earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from cliff_layers import LAYERS
from cliff_space import MOST_WORK, Space
from tcopt.frontends.onnx.building.network import Network

EPILOGUES = (
    "none",
    "relu",
    "silu",
    "add",
    "add relu",
    "silu add",
    "add silu",
    "gelu",
    "gelu by tanh",
    "mish",
    "hard swish",
    "gate",
)
"""Epilogues of a contraction; `add` and `gate` read another tensor."""


def follow(net: Network, x: str, kind: str, shape: list[int]) -> str:
    """Append an epilogue as the basic operators that exporters write."""
    add, number = net.add, net.scalar
    for step in kind.replace("gelu by tanh", "tanh-gelu").replace("hard swish", "swish6").split():
        match step:
            case "relu":
                x = add("Relu", x)
            case "silu":
                x = add("Mul", x, add("Sigmoid", x))
            case "mish":
                x = add("Mul", x, add("Tanh", add("Softplus", x)))
            case "gelu":
                part = add("Erf", add("Div", x, number(2**0.5)))
                x = add("Mul", add("Mul", x, add("Add", part, number(1.0))), number(0.5))
            case "tanh-gelu":
                cube = add("Mul", add("Mul", add("Mul", x, x), x), number(0.044715))
                part = add("Tanh", add("Mul", add("Add", x, cube), number(0.7978846)))
                x = add("Mul", add("Mul", x, number(0.5)), add("Add", part, number(1.0)))
            case "swish6":
                gate = add("Clip", add("Add", x, number(3.0)), number(0.0), number(6.0))
                x = add("Div", add("Mul", x, gate), number(6.0))
            case "add":
                x = add("Add", x, net.input("other", shape))
            case "gate":
                x = add("Mul", add("Tanh", x), add("Sigmoid", net.input("other", shape)))
            case _:
                pass
    return x


def _convolution(c: Any) -> ModelProto | None:
    groups = {"one": 1, "two": 2, "four": 4, "each": c.inputs}[c.groups]
    outputs = c.inputs if c.groups == "each" else c.outputs
    if c.inputs % groups or outputs % groups or (c.transposed and c.dilation > 1):
        return None
    size = {1: c.size * 16, 2: c.size, 3: max(c.size // 3, 4)}[c.dimensions]
    reach = (c.kernel - 1) * c.dilation + 1
    # A causal window covers only earlier positions.
    low, high = {"both": (reach // 2,) * 2, "none": (0, 0), "causal": (reach - 1, 0)}[c.padded]
    if c.transposed:
        result = (size - 1) * c.stride + reach - low - high
    else:
        result = (size + low + high - reach) // c.stride + 1
    work = c.batch * outputs * result**c.dimensions * c.inputs // groups * c.kernel**c.dimensions
    if result < 1 or size + low + high < reach or not 0 < work <= MOST_WORK or low >= reach:
        return None
    net = Network("convolution")
    x = net.input("x", [c.batch, c.inputs] + [size] * c.dimensions)
    first, second = (c.inputs, outputs) if c.transposed else (outputs, c.inputs)
    w = net.normal([first, second // groups] + [c.kernel] * c.dimensions, 0.1)
    y = net.add(
        "ConvTranspose" if c.transposed else "Conv",
        x,
        w,
        net.normal([outputs], 0.1),
        strides=[c.stride] * c.dimensions,
        dilations=[c.dilation] * c.dimensions,
        pads=[low] * c.dimensions + [high] * c.dimensions,
        group=groups,
    )
    shape = [c.batch, outputs] + [result] * c.dimensions
    return net.model(**{follow(net, y, c.epilogue, shape): shape})


def _product(c: Any) -> ModelProto | None:
    if c.rows * c.depth * c.columns * c.batch > MOST_WORK:
        return None
    batch = [c.batch] if c.batch > 1 else []
    net = Network("product")
    x = net.input("x", [*batch, c.rows, c.depth])
    shape = [c.depth, c.columns]
    w = net.input("w", [*batch, *shape]) if c.variable else net.normal(shape, 0.1)
    result = [*batch, c.rows, c.columns]
    return net.model(**{follow(net, net.add("MatMul", x, w), c.epilogue, result): result})


def _pool(c: Any) -> ModelProto | None:
    result = (c.size + 2 * (c.kernel // 2) - c.kernel) // c.stride + 1
    net = Network("pool")
    y = net.add(
        c.operator,
        net.input("x", [c.batch, c.channels, c.size, c.size]),
        kernel_shape=[c.kernel] * 2,
        strides=[c.stride] * 2,
        pads=[c.kernel // 2] * 4,
    )
    return net.model(**{y: [c.batch, c.channels, result, result]})


_WIDE_FUNCTIONS = ("Exp", "Tanh", "Sigmoid", "Log", "Sqrt")
"""Functions whose f64 form onnxruntime has."""


def _function(c: Any) -> ModelProto | None:
    if c.wide and c.operator not in _WIDE_FUNCTIONS:
        return None
    net, shape = Network("function"), [c.rows, c.columns]
    kind = TensorProto.DOUBLE if c.wide else TensorProto.FLOAT
    x = [net.input(name, shape, kind) for name in ("xy" if c.operator == "Pow" else "x")]
    model = net.model(**{net.add(c.operator, *x): shape})
    model.graph.output[0].type.tensor_type.elem_type = kind
    return model


def _along(c: Any) -> ModelProto | None:
    shape = [c.outer, c.middle, c.inner]
    net = Network("along")
    x, axis = net.input("x", shape), c.axis
    match c.operator:
        case "CumSum":
            return net.model(**{net.add("CumSum", x, net.ints(axis)): shape})
        case "ReduceMean" | "ReduceMax":
            y = net.add(c.operator, x, axes=[axis])
            return net.model(**{y: [n if d != axis else 1 for d, n in enumerate(shape)]})
        case _:
            return net.model(**{net.add(c.operator, x, axis=axis): shape})


def _scatter(c: Any) -> ModelProto | None:
    if c.updates > c.rows:
        return None
    rng, net = np.random.default_rng(0), Network("scatter")
    x, updates = net.input("x", [c.rows, c.columns]), net.input("u", [c.updates, c.columns])
    rows = rng.permutation(c.rows)[: c.updates].astype(np.int64)[:, None]
    if c.operator == "ScatterND":
        y = net.add("ScatterND", x, net.weight(rows), updates)
    else:
        places = net.weight(np.repeat(rows, c.columns, axis=1))
        y = net.add("ScatterElements", x, places, updates, axis=0)
    return net.model(**{y: [c.rows, c.columns]})


def _resize(c: Any) -> ModelProto:
    net, size = Network("resize"), int(c.size * c.scale)
    scales = net.weight(np.array([1, 1, c.scale, c.scale], np.float32))
    y = net.add("Resize", net.input("x", [1, c.channels, c.size, c.size]), "", scales, mode=c.mode)
    return net.model(**{y: [1, c.channels, size, size]})


def _network(c: Any) -> ModelProto | None:
    if c.size**2 * c.channels**2 * 18 * c.blocks > 4 * MOST_WORK:
        return None
    net, n = Network("network"), c.channels
    x = net.input("x", [1, 3, c.size, c.size])
    x = follow(net, net.conv(x, 3, n), c.epilogue, [])
    for _ in range(c.blocks):
        y = follow(net, net.conv(x, n, n, 1), c.epilogue, [])
        y = net.add("Conv", y, net.normal([n, n // (n if c.depthwise else 1), 3, 3], 0.1),
                    pads=[1] * 4, group=n if c.depthwise else 1)  # fmt: skip
        y = follow(net, y, c.epilogue, [])
        match c.joined:
            case "sum":
                x = net.add("Add", x, y)
            case "concatenation":
                x = net.conv(net.add("Concat", x, y, axis=1), 2 * n, n, 1)
            case _:
                x = y
    return net.model(**{x: [1, n, c.size, c.size]})


CHANNELS = (16, 1, 3, 4, 8, 24, 32, 37, 53, 64, 96, 128, 160)
SIZES = (16, 7, 9, 14, 17, 28, 33, 40, 56)

SPACES: Mapping[str, Space] = {
    "convolution": Space(
        {
            "epilogue": EPILOGUES,
            "half": (False, False, False, True),
            "dimensions": (2, 1, 3),
            "batch": (1, 2, 5),
            "groups": ("one", "each", "two", "four"),
            "transposed": (False, False, True),
            "dilation": (1, 1, 2, 6, 12, 36),
            "stride": (1, 2, 3),
            "kernel": (1, 3, 2, 4, 5, 7),
            "padded": ("both", "none", "causal"),
            "inputs": CHANNELS,
            "outputs": CHANNELS,
            "size": SIZES,
        },
        _convolution,
    ),
    "product": Space(
        {
            "epilogue": EPILOGUES,
            "half": (False, False, False, True),
            "batch": (1, 2, 8),
            "variable": (False, True),
            "rows": (16, 1, 7, 49, 64, 197, 512),
            "depth": (16, 7, 64, 100, 256, 768),
            "columns": (16, 1, 7, 10, 64, 100, 256, 1000),
        },
        _product,
    ),
    "pool": Space(
        {
            "operator": ("MaxPool", "AveragePool"),
            "batch": (1, 2),
            "stride": (1, 2),
            "kernel": (3, 2, 5),
            "channels": CHANNELS,
            "size": SIZES,
        },
        _pool,
    ),
    "function": Space(
        {
            "operator": (
                *("Exp", "Tanh", "Sigmoid", "Erf", "Log", "Sqrt", "Sin", "Cos", "Tan"),
                *("Atan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Pow", "Softplus", "Elu"),
            ),
            "wide": (False, True),
            "rows": (16, 1, 7, 64),
            "columns": (256, 33, 1000, 4096),
        },
        _function,
    ),
    "axis": Space(
        {
            "operator": ("Softmax", "LogSoftmax", "CumSum", "ReduceMean", "ReduceMax"),
            "axis": (2, 1, 0),
            "outer": (8, 1, 64),
            "middle": (16, 7, 64, 197),
            "inner": (16, 10, 64, 333),
        },
        _along,
    ),
    "scatter": Space(
        {
            "operator": ("ScatterND", "ScatterElements"),
            "updates": (16, 1, 256),
            "columns": (16, 1, 64, 100),
            "rows": (64, 1000, 4096),
        },
        _scatter,
    ),
    "resize": Space(
        {
            "mode": ("nearest", "linear"),
            "scale": (2.0, 1.5, 0.5),
            "channels": CHANNELS,
            "size": SIZES,
        },
        _resize,
    ),
    "network": Space(
        {
            "epilogue": tuple(e for e in EPILOGUES if "add" not in e and e != "gate"),
            "depthwise": (False, True),
            "joined": ("none", "sum", "concatenation"),
            "blocks": (1, 2, 3),
            "channels": (16, 24, 37, 64),
            "size": (16, 33, 56, 80),
        },
        _network,
    ),
    **LAYERS,
}
