"""8-bit layers with integer results, which are exact."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper

from models.network import Network

DOTS = 3
"""Layers that accumulate products: a depthwise convolution multiplies channel by channel."""


def integer_products(zero: int | None, *, signed: bool = False) -> ModelProto:
    """Products over the whole range of an input and of a quantised layer.

    Args:
        zero: the zero point of the data; None if it is an input.
        signed: whether the data is signed.
    """
    net, depth = Network("integers", seed=5), 8
    kind, dtype = (TensorProto.INT8, np.int8) if signed else (TensorProto.UINT8, np.uint8)
    x = net.input("x", [1, depth, 7, 7], kind)
    known = None if zero is None else net.weight(dtype(zero))
    z = net.input("zero", [], kind) if known is None else known

    def weights(*shape: int) -> str:
        values = net.rng.integers(-128, 127, shape, np.int8, endpoint=True)
        values.flat[:2] = -128, 127
        return net.weight(values)

    pads = {"pads": [1, 1, 1, 1]}
    one, half = net.weight(np.float32(1)), net.weight(np.float32(0.002))
    between = net.weight(dtype(3))
    inner, none = weights(20, depth, 1, 1), net.weight(np.int8(0))
    layer = net.add("QLinearConv", x, one, z, inner, half, none, one, between)
    rows = net.add("Reshape", x, net.ints(depth, 49))
    shapes = {
        net.add("MatMulInteger", rows, weights(49, 30), z): (depth, 30),
        net.add("ConvInteger", x, weights(depth, 1, 3, 3), z, group=depth, **pads): (
            1,
            depth,
            7,
            7,
        ),
        net.add("ConvInteger", layer, weights(8, 20, 3, 3), between, **pads): (1, 8, 7, 7),
    }
    model = net.model(**shapes)
    for output in model.graph.output:
        output.type.tensor_type.elem_type = TensorProto.INT32
    return model


def byte_feeds(model: ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Return bytes of the whole range for each input."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        limits = np.iinfo(dtype)
        feeds[value.name] = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return feeds
