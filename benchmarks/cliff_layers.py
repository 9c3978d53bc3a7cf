"""Spaces of layers that move, select or normalise data, or are recurrent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from cliff_space import MOST_WORK, Space
from tcopt.frontends.onnx.building.network import Network


def _select(c: Any) -> ModelProto | None:
    net, rng = Network("select"), np.random.default_rng(0)
    shape = [c.rows, c.columns]
    x = net.input("x", shape)
    picked = rng.integers(0, c.rows, c.count)
    match c.operator:
        case "Gather":
            return net.model(**{net.add("Gather", x, net.weight(picked)): [c.count, c.columns]})
        case "GatherElements":
            places = net.weight(rng.integers(0, c.rows, (c.count, c.columns)))
            return net.model(**{net.add(c.operator, x, places, axis=0): [c.count, c.columns]})
        case "GatherND":
            places = net.weight(picked[:, None])
            return net.model(**{net.add("GatherND", x, places): [c.count, c.columns]})
        case "TopK":
            if c.count > c.columns:
                return None
            values, places = net.add_many("TopK", 2, x, net.ints(c.count))
            net.nodes.append(_cast(places, "places"))
            return net.model(**{values: [c.rows, c.count], "places": [c.rows, c.count]})
        case "Compress":
            kept = np.zeros(c.rows, bool)
            kept[: min(c.count, c.rows)] = True
            total = int(kept.sum())
            y = net.add("Compress", x, net.weight(rng.permutation(kept)), axis=0)
            return net.model(**{y: [total, c.columns]})
        case _:
            y = net.add("ArgMax", x, axis=1, keepdims=0)
            net.nodes.append(_cast(y, "places"))
            return net.model(places=[c.rows])


def _cast(source: str, result: str) -> Any:
    from onnx import helper

    return helper.make_node("Cast", [source], [result], to=TensorProto.FLOAT)


def _move(c: Any) -> ModelProto | None:
    net, shape = Network("move"), [c.outer, c.middle, c.inner]
    axis, n = c.axis, shape[c.axis]
    result = list(shape)
    if c.operator == "Concat":
        parts = [net.input(f"x{i}", shape) for i in range(c.parts)]
        result[axis] *= c.parts
        return net.model(**{net.add("Concat", *parts, axis=axis): result})
    x = net.input("x", shape)
    match c.operator:
        case "Split":
            if n % c.parts:
                return None
            result[axis] //= c.parts
            # A view would leave nothing to measure.
            made = [net.add("Neg", p) for p in net.add_many("Split", c.parts, x, axis=axis)]
            return net.model(**{name: result for name in made})
        case "Transpose":
            order = [d for d in range(3) if d != axis] + [axis]
            y = net.add("Transpose", x, perm=order)
            return net.model(**{y: [shape[d] for d in order]})
        case "Slice":
            step = min(c.parts, n)
            result[axis] = -(-n // step)
            ends, axes, steps = net.ints(n), net.ints(axis), net.ints(step)
            return net.model(**{net.add("Slice", x, net.ints(0), ends, axes, steps): result})
        case "Reverse":
            ends, axes, steps = net.ints(-n - 1), net.ints(axis), net.ints(-1)
            return net.model(**{net.add("Slice", x, net.ints(-1), ends, axes, steps): result})
        case "Tile":
            repeats = [c.parts if d == axis else 1 for d in range(3)]
            result[axis] *= c.parts
            return net.model(**{net.add("Tile", x, net.ints(*repeats)): result})
        case _:
            if c.mode == "reflect" and c.parts >= n:
                return None
            pads = [c.parts if d == axis else 0 for d in range(3)]
            result[axis] += 2 * c.parts
            return net.model(**{net.add("Pad", x, net.ints(*pads, *pads), mode=c.mode): result})


def _pair(c: Any) -> ModelProto:
    """Two operands, one of which may be smaller, and a selection by a comparison."""
    net, shape = Network("pair"), [c.outer, c.middle, c.inner]
    other = {"none": shape, "inner": [c.inner], "middle": [c.middle, 1], "outer": [c.outer, 1, 1]}
    x, y = net.input("x", shape), net.input("y", other[c.broadcast])
    if c.operator in ("Less", "Equal"):
        return net.model(**{net.add("Where", net.add(c.operator, x, y), x, y): shape})
    if c.operator == "Mod":
        return net.model(**{net.add("Mod", x, y, fmod=1): shape})
    return net.model(**{net.add(c.operator, x, y): shape})


def _normalise(c: Any) -> ModelProto | None:
    net, shape = Network("normalise", opset=18), [c.batch, c.channels, c.size]
    x = net.input("x", shape)
    if c.operator == "LayerNormalization":
        scale, bias = (net.normal([c.size], 0.1, 1.0) for _ in range(2))
        y = net.add(c.operator, x, scale, bias, axis=-1)
    elif c.operator == "InstanceNormalization":
        scale, bias = (net.normal([c.channels], 0.1, 1.0) for _ in range(2))
        y = net.add(c.operator, x, scale, bias)
    elif c.operator == "LpNormalization":
        y = net.add(c.operator, x, axis=1, p=2)
    else:
        if c.channels % 4:
            return None
        parts = net.add("Reshape", x, net.ints(c.batch, 4, -1))
        ones = net.weight(np.ones(4, np.float32))
        zeros = net.weight(np.zeros(4, np.float32))
        y = net.add("InstanceNormalization", parts, ones, zeros)
        y = net.add("Reshape", y, net.ints(*shape))
    return net.model(**{y: shape})


def _attention(c: Any) -> ModelProto | None:
    if c.batch * c.heads * c.tokens * c.keys * c.width > MOST_WORK:
        return None
    net = Network("attention")
    q = net.input("q", [c.batch, c.heads, c.tokens, c.width])
    k = net.input("k", [c.batch, c.heads, c.keys, c.width])
    v = net.input("v", [c.batch, c.heads, c.keys, c.width])
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.add("Mul", scores, net.scalar(c.width**-0.5))
    if c.mask:
        scores = net.add("Add", scores, net.input("mask", [c.batch, 1, c.tokens, c.keys]))
    y = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
    y = net.add("Transpose", y, perm=[0, 2, 1, 3])
    return net.model(**{y: [c.batch, c.tokens, c.heads, c.width]})


def _recurrent(c: Any) -> ModelProto | None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[c.operator]
    if c.steps * c.batch * gates * c.hidden * (c.hidden + c.inputs) > MOST_WORK:
        return None
    net, d = Network("recurrent"), 2 if c.both else 1
    x = net.input("x", [c.steps, c.batch, c.inputs])
    w = net.normal([d, gates * c.hidden, c.inputs], 0.1)
    r = net.normal([d, gates * c.hidden, c.hidden], 0.1)
    direction = "bidirectional" if c.both else "forward"
    y = net.add(c.operator, x, w, r, hidden_size=c.hidden, direction=direction)
    return net.model(**{y: [c.steps, d, c.batch, c.hidden]})


def _quantised(c: Any) -> ModelProto | None:
    if c.rows * c.depth * c.columns > MOST_WORK:
        return None
    net, rng = Network("quantised"), np.random.default_rng(0)
    zero = net.weight(np.array(0 if c.signed else 128, np.int8 if c.signed else np.uint8))
    x = net.add("QuantizeLinear", net.input("x", [c.rows, c.depth]), net.scalar(0.02), zero)
    x = net.add("DequantizeLinear", x, net.scalar(0.02), zero)
    none = net.weight(np.array(0, np.int8))
    if c.computed:
        w = net.input("w", [c.depth, c.columns])
        weights = net.add("QuantizeLinear", w, net.scalar(0.01), none)
    else:
        weights = net.weight(rng.integers(-127, 128, (c.depth, c.columns)).astype(np.int8))
    w = net.add("DequantizeLinear", weights, net.scalar(0.01), none)
    y = net.add("MatMul", x, w)
    if c.requantised:
        y = net.add("QuantizeLinear", y, net.scalar(0.1), zero)
        y = net.add("DequantizeLinear", y, net.scalar(0.1), zero)
    return net.model(**{y: [c.rows, c.columns]})


def _points(c: Any) -> ModelProto:
    """Features of each point, then their maximum over all points."""
    net, width = Network("points"), 3
    x = net.input("x", [c.batch, 3, c.points])
    for layer in range(c.layers):
        wide = c.features * 2**layer
        w = net.normal([wide, width, 1], 0.1)
        x = net.add("Relu", net.add("Conv", x, w, net.normal([wide], 0.1)))
        width = wide
    return net.model(**{net.add("ReduceMax", x, axes=[2], keepdims=0): [c.batch, width]})


ROWS = (64, 1, 7, 1000)
COLUMNS = (64, 1, 10, 100, 333)

LAYERS: Mapping[str, Space] = {
    "select": Space(
        {
            "operator": ("Gather", "GatherElements", "GatherND", "TopK", "Compress", "ArgMax"),
            "count": (16, 1, 5, 300),
            "rows": ROWS,
            "columns": (*COLUMNS, 8400),
        },
        _select,
    ),
    "move": Space(
        {
            "operator": ("Transpose", "Concat", "Split", "Slice", "Reverse", "Tile", "Pad"),
            "mode": ("constant", "edge", "reflect"),
            "parts": (2, 3, 4, 16),
            "axis": (0, 1, 2),
            "outer": (8, 1, 64),
            "middle": (16, 7, 64, 197),
            "inner": (16, 10, 64, 333),
        },
        _move,
    ),
    "pair": Space(
        {
            "operator": ("Add", "Mul", "Div", "Pow", "Max", "Less", "Equal", "Mod", "PRelu"),
            "broadcast": ("none", "inner", "middle", "outer"),
            "outer": (8, 1, 64),
            "middle": (16, 7, 64, 197),
            "inner": (16, 1, 10, 64, 333),
        },
        _pair,
    ),
    "normalise": Space(
        {
            "operator": (
                "LayerNormalization",
                "InstanceNormalization",
                "LpNormalization",
                "group",
            ),
            "batch": (1, 8),
            "channels": (16, 3, 37, 128),
            "size": (64, 7, 100, 768, 3136),
        },
        _normalise,
    ),
    "attention": Space(
        {
            "mask": (False, True),
            "batch": (1, 2),
            "heads": (4, 1, 12),
            "tokens": (64, 1, 49, 197),
            "keys": (64, 49, 197, 512),
            "width": (64, 32, 40),
        },
        _attention,
    ),
    "recurrent": Space(
        {
            "operator": ("LSTM", "GRU", "RNN"),
            "both": (False, True),
            "batch": (1, 4),
            "steps": (8, 1, 50),
            "inputs": (32, 1, 40, 256),
            "hidden": (64, 10, 37, 256),
        },
        _recurrent,
    ),
    "quantised": Space(
        {
            "signed": (True, False),
            "requantised": (False, True),
            "computed": (False, True),
            "rows": (16, 1, 49, 197),
            "depth": (64, 7, 256, 768),
            "columns": (64, 1, 10, 100, 1000),
        },
        _quantised,
    ),
    "points": Space(
        {
            "batch": (1, 4),
            "layers": (1, 2, 3),
            "features": (64, 16, 37),
            "points": (256, 100, 1024),
        },
        _points,
    ),
}
