"""Random models with integer results, which are the same on every machine.

Most extents leave a vector tail of one lane, or of nearly a whole vector.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

_EXTENTS = (1, 3, 7, 9, 15, 17, 31, 33, 49, 50, 63, 65, 81, 97, 100, 129)
_SIDES = (1, 3, 5, 7, 9, 17)
_NARROW = ("int8", "uint8", "int16", "int32")
_WIDE = ("int16", "int32", "int64", "uint8")


class _Maker:
    """A model under construction."""

    def __init__(self, seed: int):
        self.pick = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.nodes: list = []
        self.weights: list = []
        self.inputs: list = []

    def input(self, dtype: str, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, value: object, dtype: str) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def integers(self, dtype: str, *shape: int) -> str:
        low, high = (-128, 127) if dtype != "uint8" else (0, 255)
        return self.weight(self.rng.integers(low, high, shape, endpoint=True), dtype)

    def add(self, op: str, *operands: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], **attributes))
        return name

    def cast(self, value: str, dtype: str) -> str:
        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def extent(self) -> int:
        return self.pick.choice(_EXTENTS)

    def model(self, result: str) -> ModelProto:
        value = helper.make_empty_tensor_value_info(result)
        graph = helper.make_graph(self.nodes, "integers", self.inputs, [value], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _scales(m: _Maker, zero: str) -> tuple[str, str, str]:
    """The scale is a power of two, so no product of scales is rounded; the zero point is 0."""
    return m.weight(2.0 ** -m.pick.randint(0, 3), "float32"), m.weight(0, "int8"), m.weight(3, zero)


def _products(m: _Maker) -> str:
    rows, depth, columns = m.pick.choice((1, 5, 32)), m.extent(), m.extent()
    kind = m.pick.choice(("uint8", "int8"))
    x, w = m.input(kind, rows, depth), m.integers("int8", depth, columns)
    if m.pick.random() < 0.5:
        sums = m.add("MatMulInteger", x, w, m.weight(3, kind))
        return m.cast(sums, m.pick.choice(_NARROW)) if m.pick.random() < 0.7 else sums
    one, none, zero = _scales(m, kind)
    small = m.weight(2.0**-7, "float32")
    return m.add("QLinearMatMul", x, one, zero, w, small, none, one, m.weight(100, kind))


def _convolutions(m: _Maker) -> str:
    groups = m.pick.choice((1, 1, 1, 4))
    channels, count = groups * m.pick.choice((1, 3, 8)), groups * m.pick.choice((1, 8, 12, 32))
    side, window = m.pick.choice(_SIDES), m.pick.choice((1, 1, 3))
    strides, pads = [m.pick.choice((1, 1, 2))] * 2, [window // 2] * 4
    kind = m.pick.choice(("uint8", "int8"))
    x = m.input(kind, 1, channels, side, side)
    w = m.integers("int8", count, channels // groups, window, window)
    options = {"group": groups, "strides": strides, "pads": pads}
    if m.pick.random() < 0.4:
        return m.cast(
            m.add("ConvInteger", x, w, m.weight(3, kind), **options), m.pick.choice(_NARROW)
        )
    one, none, zero = _scales(m, kind)
    small, bias = m.weight(2.0**-6, "float32"), m.integers("int32", count)
    return m.add("QLinearConv", x, one, zero, w, small, none, one, zero, bias, **options)


def _elementwise(m: _Maker) -> str:
    shape = (m.pick.choice((1, 4, 32)), m.extent())
    kind = m.pick.choice(_WIDE)
    value = m.input(kind, *shape)
    for _ in range(m.pick.randint(1, 4)):
        op = m.pick.choice(("Add", "Sub", "Mul", "Min", "Max", "BitwiseAnd", "BitwiseXor", "Where"))
        other = m.integers(kind, *(shape if m.pick.random() < 0.5 else shape[-1:]))
        if op == "Where":
            value = m.add(op, m.add("Greater", value, other), value, other)
        else:
            value = m.add(op, value, other)
    return m.cast(value, m.pick.choice((*_NARROW, "bool")))


def _movements(m: _Maker) -> str:
    shape = (m.pick.choice((2, 8)), m.extent(), m.extent())
    value = m.cast(m.input(m.pick.choice(_WIDE), *shape), m.pick.choice(_NARROW))
    kind = m.pick.choice(("Transpose", "Concat", "Slice", "Pad"))
    if kind == "Transpose":
        return m.add(kind, value, perm=m.pick.sample(range(3), 3))
    if kind == "Concat":
        return m.add(kind, value, value, axis=m.pick.randrange(3))
    if kind == "Slice":
        step = m.weight([m.pick.choice((1, 2, 3))], "int64")
        ends = (m.weight([at], "int64") for at in (0, 2**31))
        return m.add(kind, value, *ends, m.weight([2], "int64"), step)
    pads = [m.pick.randint(0, 2) for _ in range(6)]
    return m.add(kind, value, m.weight(pads, "int64"))


def _reductions(m: _Maker) -> str:
    shape = (m.pick.choice((3, 8)), m.pick.choice((4, 17)), m.extent())
    value = m.input(m.pick.choice(("int32", "int64")), *shape)
    axis = m.pick.randrange(3)
    op = m.pick.choice(("ReduceSum", "ReduceMax", "ReduceMin", "ArgMax", "CumSum"))
    if op == "ArgMax":
        return m.cast(m.add(op, value, axis=axis), "int32")
    axes = m.weight(axis if op == "CumSum" else [axis], "int64")
    return m.cast(m.add(op, value, axes), m.pick.choice(_NARROW))


def _steps(m: _Maker) -> str:
    shape = (m.pick.choice((1, 32)), m.extent())
    zero, kind = m.pick.choice(((3, "uint8"), (-4, "int8")))
    scale = m.weight(0.25, "float32")
    real = m.add("DequantizeLinear", m.input(kind, *shape), scale, m.weight(zero, kind))
    if m.pick.random() < 0.5:
        real = m.add("Relu", real)
    target = m.pick.choice(("uint8", "int8"))
    return m.add("QuantizeLinear", real, m.weight(0.5, "float32"), m.weight(1, target))


_FAMILIES: tuple[Callable[[_Maker], str], ...] = (
    _products,
    _convolutions,
    _elementwise,
    _movements,
    _reductions,
    _steps,
)


def integer_model(seed: int) -> ModelProto:
    """Return the model with a number; operator families alternate."""
    maker = _Maker(seed)
    return maker.model(_FAMILIES[seed % len(_FAMILIES)](maker))


def feeds_of(model: ModelProto, seed: int) -> dict[str, np.ndarray]:
    """The whole range of each input's type; floats around zero."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    known = {weight.name for weight in model.graph.initializer}
    for value in model.graph.input:
        if value.name in known:
            continue
        type_ = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(type_.elem_type)
        shape = [d.dim_value or 1 for d in type_.shape.dim]
        if type_.elem_type == TensorProto.BOOL:
            feeds[value.name] = rng.random(shape) < 0.5
        elif dtype.kind in "iu":
            info = np.iinfo(dtype)
            feeds[value.name] = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        else:
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
    return feeds
