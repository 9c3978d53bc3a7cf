"""Small random quantised networks, which exercise the partition between processors.

A network consists of convolutions, sums, concatenations, poolings and dense layers between
quantisers. Each reads any existing values, so values have several users and quantisers, and
intermediate values are results.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Value:
    """A quantised value: its name, shape, scale and zero point, and their names."""

    name: str
    shape: tuple[int, ...]
    scale: str
    zero: str


@dataclass
class QuantisedNetwork:
    """A network under construction.

    Attributes:
        shifts: whether all scales are powers of two and all zero points zero.
        element: signed or unsigned bytes.
    """

    seed: int
    shifts: bool
    element: type[np.generic] = np.int8
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    tensors: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    there: list[Value] = field(default_factory=list[Value])

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)

    def build(self, operations: int = 6) -> onnx.ModelProto:
        """Return the network."""
        channels, size = self.rng.choice([1, 3, 5, 16, 20, 32]), self.rng.choice([5, 7, 8, 9])
        x = self.quantise("x", (1, channels, size, size), -4)
        for _ in range(operations):
            self.grow()
        if self.rng.random() < 0.4:
            self.dense()
        # Values without users are results, and occasionally others too.
        read = {name for node in self.nodes for name in node.input}
        ends = [v for v in self.there if v.name not in read or self.rng.random() < 0.15]
        results: list[onnx.ValueInfoProto] = []
        for n, value in enumerate(dict.fromkeys(ends)):
            element = TensorProto.FLOAT
            name = self.real(value, f"y{n}")
            if self.rng.random() < 0.2:
                name = value.name
                element = helper.np_dtype_to_tensor_dtype(np.dtype(self.element))
            results.append(helper.make_tensor_value_info(name, element, value.shape))
        data = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
        graph = helper.make_graph(self.nodes, f"seed{self.seed}", [data], results, self.tensors)
        opset = helper.make_opsetid("", 17)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)

    def grow(self) -> None:
        """Add a random operation on existing values."""
        kinds = [self.conv] * 4 + [self.add] * 3 + [self.join, self.pool, self.again, self.chain]
        self.rng.choice(kinds)()

    def conv(self, source: Value | None = None) -> Value:
        """A convolution with any window, groups and strides."""
        x = source or self.any_value()
        rng, (_, channels, *space) = self.rng, x.shape
        kernel = [rng.choice([1, 1, 3, 3, 2]) for _ in space]
        stride = rng.choice([1, 1, 2])
        pads = [rng.randrange((k + 1) // 2 + 1) for k in kernel * 2]
        dilation = rng.choice([1, 1, 1, 2])
        out = [
            (n + pads[d] + pads[d + 2] - dilation * (kernel[d] - 1) - 1) // stride + 1
            for d, n in enumerate(space)
        ]
        if min(out) < 1:
            return self.conv(x) if source is None else x
        groups = rng.choice([1, 1, 1, channels, *(g for g in (2, 4) if channels % g == 0)])
        outputs = rng.choice([channels, channels, 16, 24, 5, 32])
        outputs = -(-outputs // groups) * groups
        window = {"kernel_shape": kernel, "strides": [stride] * 2, "pads": pads}
        window |= {"dilations": [dilation] * 2, "group": groups}
        operands = self.factors(x, (outputs, channels // groups, *kernel), outputs)
        return self.activated(self.node("Conv", operands, **window), (1, outputs, *out))

    def add(self) -> Value:
        """A sum of two values, one of which may first be brought to the other's shape."""
        a = self.any_value()
        same = [v for v in self.there if v.shape == a.shape]
        b = self.rng.choice(same)
        if self.rng.random() < 0.5:
            b = self.same_shape(a)
        return self.activated(self.node("Add", [self.real(a), self.real(b)]), a.shape)

    def same_shape(self, like: Value) -> Value:
        """A same-size convolution with the given number of channels."""
        x = self.rng.choice([v for v in self.there if v.shape[2:] == like.shape[2:]])
        size = self.rng.choice([1, 3])
        shape = (like.shape[1], x.shape[1], size, size)
        window = {"kernel_shape": [size] * 2, "pads": [size // 2] * 4}
        operands = self.factors(x, shape, like.shape[1])
        return self.activated(self.node("Conv", operands, **window), like.shape)

    def join(self) -> Value:
        """Concatenate the channels of several values."""
        a = self.any_value()
        near = [v for v in self.there if v.shape[2:] == a.shape[2:]]
        parts = [a, self.rng.choice(near)]
        shape = (1, sum(v.shape[1] for v in parts), *a.shape[2:])
        return self.activated(self.node("Concat", [self.real(v) for v in parts], axis=1), shape)

    def pool(self) -> Value:
        """A pooling, whose result may share the scale of its data."""
        x = self.any_value()
        if self.rng.random() < 0.2:
            return self.activated(
                self.node("GlobalAveragePool", [self.real(x)]), (*x.shape[:2], 1, 1)
            )
        rng, space = self.rng, x.shape[2:]
        kind = rng.choice(["MaxPool", "MaxPool", "AveragePool"])
        is_max = kind == "MaxPool"
        kernel = [rng.choice([1, 2, 2, 3, 3]) for _ in space]
        strides = [rng.choice([1, 2]) for _ in space]
        dilations = [rng.choice([1, 1, 2]) if is_max else 1 for _ in space]
        pads = [rng.randrange(k) for k in kernel * 2]
        window: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        window |= {"dilations": dilations} if is_max else {"count_include_pad": rng.randrange(2)}
        # A partial last window counts if it begins inside.
        rounding = rng.choice([0, 0, 1]) if is_max else 0
        out: list[int] = []
        for d, (n, step) in enumerate(zip(space, strides, strict=True)):
            room = n + pads[d] + pads[d + 2] - dilations[d] * (kernel[d] - 1) - 1
            more = rounding and room % step and (room // step + 1) * step < n + pads[d]
            out.append(room // step + 1 + bool(more))
            if room < 0:
                return x
        made = self.node(kind, [self.real(x)], ceil_mode=rounding, **window)
        shape = (*x.shape[:2], *out)
        return self.quantised(made, shape, like=x if is_max else None)

    def again(self) -> Value:
        """Requantise to another scale."""
        x = self.any_value()
        return self.quantised(self.real(x), x.shape)

    def chain(self) -> Value:
        """Consecutive convolutions, with the first added to the last."""
        x = self.any_value()
        first = self.same_shape(x)
        second = self.same_shape(first)
        total = self.node("Add", [self.real(second), self.real(x)])
        return self.activated(total, x.shape)

    def dense(self) -> Value:
        """Consecutive dense layers, on means or on all elements of an image."""
        x, rng = self.any_value(), self.rng
        name, depth, like = self.real(x), x.shape[1], None
        if rng.random() < 0.7:
            name = self.node("GlobalAveragePool", [name])
            if rng.random() < 0.5:
                like = self.quantised(name, (1, depth, 1, 1))
                name = self.real(like)
        else:
            like, depth = x, int(np.prod(x.shape))
        x = self.quantised(self.node("Flatten", [name]), (1, depth), like)
        for _ in range(rng.choice([0, 0, 1, 2])):
            x = self.layer(x, rng.choice([10, 16, 33, 48]))
        outputs = rng.choice([10, 16, 33])
        return self.quantised(self.product(x, outputs), (1, outputs))

    def layer(self, x: Value, outputs: int) -> Value:
        """A dense layer with an activation."""
        return self.activated(self.product(x, outputs), (*x.shape[:-1], outputs))

    def product(self, x: Value, outputs: int) -> str:
        """Rows times a matrix, with optional bias."""
        if len(x.shape) == 2:
            operands = self.factors(x, (outputs, x.shape[1]), outputs)
            return self.node("Gemm", operands, transB=1)
        data, weights, *bias = self.factors(x, (x.shape[-1], outputs), outputs, axis=1)
        made = self.node("MatMul", [data, weights])
        return self.node("Add", [made, *bias]) if bias else made

    # Helpers of the methods above.

    def any_value(self) -> Value:
        """Return one of the most recent image values."""
        images = [v for v in self.there if len(v.shape) == 4]
        return self.rng.choice(images[-4:])

    def factors(self, x: Value, shape: Sequence[int], outputs: int, *, axis: int = 0) -> list[str]:
        """Return the operands of a contraction: data, weights, and an optional bias.

        Args:
            axis: the output dimension of the weights.
        """
        low, high = (-4, 5) if self.rng.random() < 0.3 else (-127, 128)
        weights = self.numbers.integers(low, high, shape, np.int8)
        by_channel = self.rng.random() < 0.5
        count = outputs if by_channel else 1
        if self.shifts:
            steps = np.full(count, 2.0 ** self.rng.randrange(-10, -6), np.float32)
        else:
            steps = (self.numbers.random(count) * 0.004 + 0.001).astype(np.float32)
        along = {"axis": axis} if by_channel else {}
        scale = self.tensor(steps if by_channel else steps[0])
        zero = self.tensor(np.zeros(count if by_channel else (), np.int8))
        names = [self.tensor(weights), scale, zero]
        found = [self.real(x), self.node("DequantizeLinear", names, **along)]
        if self.rng.random() < 0.7:
            bias = self.numbers.integers(-900, 900, outputs).astype(np.int32)
            step = self._array(x.scale) * steps
            scale = self.tensor((step if by_channel else step[0]).astype(np.float32))
            zero = self.tensor(np.zeros(count if by_channel else (), np.int32))
            names = [self.tensor(bias), scale, zero]
            along = {"axis": 0} if by_channel else {}
            found.append(self.node("DequantizeLinear", names, **along))
        return found

    def activated(self, name: str, shape: Sequence[int]) -> Value:
        """Apply an activation and quantise, occasionally twice."""
        kind = self.rng.choice(["Relu", "Relu", "Clip", ""])
        if kind == "Relu":
            name = self.node("Relu", [name])
        elif kind:
            limits = [self.tensor(np.array(n, np.float32)) for n in (0, 6)]
            name = self.node("Clip", [name, *limits])
        if self.rng.random() < 0.15:
            self.quantised(name, shape)
        return self.quantised(name, shape)

    def quantised(self, name: str, shape: Sequence[int], like: Value | None = None) -> Value:
        """Quantise a value to bytes."""
        if like is not None and self.rng.random() < 0.8:
            made = self.node("QuantizeLinear", [name, like.scale, like.zero])
            self.there.append(Value(made, tuple(shape), like.scale, like.zero))
            return self.there[-1]
        return self.quantise(name, shape, self.rng.choice([-5, -4, -4, -4, -3]))

    def quantise(self, name: str, shape: Sequence[int], places: int) -> Value:
        step = 2.0**places * (1 if self.shifts else 1 + self.rng.random() * 0.9)
        scale = self.tensor(np.array(step, np.float32))
        signed = self.element == np.int8
        point = 0 if self.shifts else self.rng.choice([0, 3, -7] if signed else [0, 100, 128])
        zero = self.tensor(np.array(point, self.element))
        made = self.node("QuantizeLinear", [name, scale, zero])
        self.there.append(Value(made, tuple(shape), scale, zero))
        return self.there[-1]

    def real(self, value: Value, name: str | None = None) -> str:
        """Dequantise a value by its own dequantiser."""
        return self.node("DequantizeLinear", [value.name, value.scale, value.zero], name)

    def node(
        self, kind: str, inputs: Sequence[str], name: str | None = None, **attributes: Any
    ) -> str:
        output = name or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def tensor(self, array: np.ndarray | np.generic) -> str:
        """Add a constant."""
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _array(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(next(t for t in self.tensors if t.name == name))


def random_network(
    seed: int, *, shifts: bool, element: type[np.generic] = np.int8
) -> onnx.ModelProto:
    """Return a random network."""
    return QuantisedNetwork(seed, shifts, element).build()
