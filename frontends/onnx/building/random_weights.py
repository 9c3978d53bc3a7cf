"""Seeded random weights for networks without meaningful ones.

Weights are drawn so that activations keep a scale of about 1 throughout the network (He et al.
2015, "Delving Deep into Rectifiers"), and the statistics of batch normalisation match its input.
The outputs then depend on the input, and a wrong kernel affects them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tcopt.support.errors import ImportModelError

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
_MATMULS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_NORMS = ("LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization")


def randomize_weights(model: ModelProto, seed: int = 0) -> ModelProto:
    """Return a copy of `model` in which every float weight is drawn randomly from `seed`.

    Weights are float initializers with more than one element, and outputs of ConstantOfShape nodes
    with a constant shape, which become initializers. Scalars and integers are kept.

    Raises:
        ImportModelError: the shape of a weight is not a list of dimensions.
    """
    result = ModelProto()
    result.CopyFrom(model)
    _Randomizer(result, np.random.default_rng(seed)).run()
    return result


class _Randomizer:
    def __init__(self, model: ModelProto, rng: np.random.Generator):
        self.model = model
        self.graph = model.graph
        self.rng = rng
        self.users: dict[str, list[tuple[NodeProto, int]]] = defaultdict(list)
        for node in self.graph.node:
            for index, name in enumerate(node.input):
                self.users[name].append((node, index))
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, int] = {}
        # Estimated mean square of each value, updated while weights are drawn.
        self.moment: dict[str, float] = defaultdict(lambda: 1.0)
        self.sums: set[str] = set()

    def run(self) -> None:
        self._collect_weights()
        drawn: dict[str, np.ndarray] = {}
        for node in self.graph.node:
            for name, role_node, index in self._weights_reached(node):
                if name not in drawn:
                    drawn[name] = self._draw(name, role_node, index)
            self._propagate(node)
        self._write(drawn)

    def _collect_weights(self) -> None:
        initializers = {t.name: t for t in self.graph.initializer}
        for tensor in self.graph.initializer:
            if tensor.data_type in _FLOATS and math.prod(tensor.dims) > 1:
                self.shapes[tensor.name] = tuple(tensor.dims)
                self.types[tensor.name] = tensor.data_type
        for node in self.graph.node:
            shape = initializers.get(node.input[0]) if node.input else None
            if node.op_type == "ConstantOfShape" and shape is not None and node.output:
                value = [a.t for a in node.attribute if a.name == "value"]
                kind = value[0].data_type if value else TensorProto.FLOAT
                if kind in _FLOATS:
                    self.shapes[node.output[0]] = _dimensions(shape)
                    self.types[node.output[0]] = kind

    def _weights_reached(self, node: NodeProto) -> Iterator[tuple[str, NodeProto, int]]:
        """Yield the weights used by `node`, directly or through nodes that only reshape them."""
        for index, name in enumerate(node.input):
            if name in self.shapes and node.op_type not in ("Unsqueeze", "Reshape", "Squeeze"):
                yield name, node, index
        if node.op_type in ("Unsqueeze", "Reshape", "Squeeze") and node.input[0] in self.shapes:
            for user, index in self.users[node.output[0]] if node.output else ():
                yield node.input[0], user, index

    def _draw(self, name: str, node: NodeProto, index: int) -> np.ndarray:
        shape = self.shapes[name]
        role = _role(node, index)
        sample = _SAMPLERS[role]
        values = sample(self.rng, shape, self._scale(role, node, shape))
        return values.astype(helper.tensor_dtype_to_np_dtype(self.types[name]), copy=False)

    def _scale(self, role: str, node: NodeProto, shape: tuple[int, ...]) -> float:
        if role == "variance":
            return self.moment[node.input[0]]
        if role != "matrix":
            return 1.0
        if node.op_type == "Conv":
            fan_in = math.prod(shape[1:])
        elif node.op_type == "ConvTranspose":
            fan_in = shape[0] * math.prod(shape[2:]) / math.prod(_ints(node, "strides"))
        else:
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            fan_in = shape[-1:] if transposed or len(shape) < 2 else shape[-2:-1]
            fan_in = math.prod(fan_in)
        return math.sqrt(2.0 / (max(fan_in, 1) * self.moment[node.input[0]]))

    def _propagate(self, node: NodeProto) -> None:
        data = [n for n in node.input if n and n not in self.shapes]
        first = self.moment[data[0]] if data else 1.0
        match node.op_type:
            case op_type if op_type in _MATMULS and len(data) == 1:
                out = 2.0
            case "BatchNormalization" | "Softmax" | "LogSoftmax":
                out = 1.0
            case op_type if op_type in _NORMS:
                out = 1.0
            case "Relu" | "Gelu" | "Erf":
                # A residual stream is mostly positive, so little is clipped.
                out = (0.9 if data and data[0] in self.sums else 0.5) * first
            case "Add" | "Sum":
                out = sum(self.moment[name] for name in data)
                self.sums.update(node.output)
            case "Concat":
                out = sum(self.moment[name] for name in data) / max(len(data), 1)
                self.sums.update(node.output)
            case "MaxPool":
                out = first * math.prod(_ints(node, "kernel_shape")) ** 0.7
            case _:
                out = first
        for name in node.output:
            self.moment[name] = out

    def _write(self, drawn: dict[str, np.ndarray]) -> None:
        graph = self.graph
        replaced = [
            n for n in graph.node if n.op_type == "ConstantOfShape" and n.output[0] in drawn
        ]
        made = [node.output[0] for node in replaced]
        for node in replaced:
            graph.node.remove(node)
        used = {name for node in graph.node for name in _names_used(node)}
        used |= {output.name for output in graph.output}
        kept: list[TensorProto] = []
        for tensor in graph.initializer:
            if tensor.name in drawn:
                kept.append(numpy_helper.from_array(drawn[tensor.name], tensor.name))
            elif tensor.name in used:
                kept.append(tensor)
        kept += [numpy_helper.from_array(drawn[name], name) for name in made]
        dropped = {t.name for t in graph.initializer} - {t.name for t in kept}
        listed = [value for value in graph.input if value.name not in dropped]
        if self.model.ir_version < 4:
            listed += [
                helper.make_tensor_value_info(name, self.types[name], self.shapes[name])
                for name in made
            ]
        _assign(graph.initializer, kept)
        _assign(graph.input, listed)


def _ints(node: NodeProto, name: str) -> list[int]:
    return next((list(a.ints) for a in node.attribute if a.name == name), [])


def _assign(field, values: list) -> None:
    copies = list(values)
    del field[:]
    field.extend(copies)


def _names_used(node: NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from _names_used(inner)


def _dimensions(tensor: TensorProto) -> tuple[int, ...]:
    try:
        dims = [int(d) for d in numpy_helper.to_array(tensor).reshape(-1)]
    except (ValueError, TypeError) as error:
        raise ImportModelError(f"shape {tensor.name!r} cannot be read: {error}") from error
    if any(d < 0 for d in dims):
        raise ImportModelError(f"shape {tensor.name!r} has a negative dimension: {dims}")
    return tuple(dims)


def _role(node: NodeProto, index: int) -> str:
    """Return the role of operand `index` of `node`, which determines how it is drawn."""
    if node.op_type in _MATMULS:
        return "bias" if index == 2 else "matrix"
    if node.op_type == "BatchNormalization":
        return ("scale", "scale", "bias", "bias", "variance")[min(index, 4)]
    if node.op_type in _NORMS:
        return "scale" if index == 1 else "bias"
    if node.op_type == "Mul":
        return "scale"
    return "bias" if node.op_type in ("Add", "Sum") else "other"


_Sampler = Callable[[np.random.Generator, tuple[int, ...], float], np.ndarray]


def _centred(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
    # Uniform with standard deviation `scale`; four times as fast as a normal distribution.
    return (rng.random(shape, np.float32) - np.float32(0.5)) * np.float32(scale * math.sqrt(12))


_SAMPLERS: dict[str, _Sampler] = {
    "matrix": _centred,
    "bias": lambda rng, shape, scale: _centred(rng, shape, 0.1),
    "other": lambda rng, shape, scale: _centred(rng, shape, 0.5),
    "scale": lambda rng, shape, scale: rng.uniform(0.8, 1.2, shape),
    "variance": lambda rng, shape, scale: scale * rng.uniform(0.7, 1.4, shape),
}
