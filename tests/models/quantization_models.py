"""Small models with fixed weights for quantisation tests."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, numpy_helper

from tcopt.frontends.onnx.building.network import Network

Feeds = dict[str, np.ndarray]


def residual(*, batch: int | str = 1) -> ModelProto:
    """Convolutions with a skip connection, a pool, and a dense layer."""
    net = Network("residual")
    x = net.add("Relu", net.conv(net.input("x", [batch, 3, 12, 12]), 3, 8))
    y = net.conv(x, 8, 8)
    y = net.add("Relu", net.add("Add", x, y))
    y = net.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = net.add("Relu", net.batch_norm(net.conv(y, 8, 16, 3, 2, bias=False), 16))
    y = net.add("Flatten", net.add("GlobalAveragePool", y), axis=1)
    return net.model(**{net.gemm(y, 16, 10): [batch, 10]})


def chain(spread: float = 1.0) -> ModelProto:
    """Consecutive convolutions, one of them depthwise; `spread` is the log range of channel
    factors."""
    net = Network("chain")
    rng = np.random.default_rng(3)
    x = net.add("Relu", net.conv(net.input("x", [1, 4, 8, 8]), 4, 8))
    x = net.add("Relu", net.conv(x, 8, 8, groups=8))
    model = net.model(**{net.conv(x, 8, 6): [1, 6, 8, 8]})
    factors = np.exp(rng.uniform(-spread, spread, 8)).astype(np.float32)
    by_name = {w.name: w for w in model.graph.initializer}
    first, _, third = (node for node in model.graph.node if node.op_type == "Conv")
    # Multiply the channels of the first convolution by the factors, and divide those of the last.
    for name, laid in (
        (first.input[1], factors.reshape(8, 1, 1, 1)),
        (first.input[2], factors),
        (third.input[1], 1 / factors.reshape(1, 8, 1, 1)),
    ):
        value = numpy_helper.to_array(by_name[name]) * laid
        by_name[name].CopyFrom(numpy_helper.from_array(value.astype(np.float32), name))
    return model


def dense() -> ModelProto:
    """Two consecutive products: few kernels, for tests that need nothing else."""
    net = Network("dense")
    x = net.add("Relu", net.gemm(net.input("x", [4, 16]), 16, 32))
    return net.model(**{net.gemm(x, 32, 8): [4, 8]})


def normalized(width: int = 32, length: int = 6) -> ModelProto:
    """A layer norm with outlier channels before two products."""
    net = Network("normalized")
    # The weights are small on channels where the norm is large.
    scale = np.ones(width, np.float32)
    scale[2], scale[7] = 60.0, 45.0
    normed = net.add(
        "LayerNormalization",
        net.input("x", [1, length, width]),
        net.weight(scale),
        net.normal([width], 0.1),
        axis=-1,
        epsilon=1e-5,
    )
    left, right = (net.linear(normed, width, 8) for _ in range(2))
    return net.model(**{net.add("Mul", left, right): [1, length, 8]})


def images(model: ModelProto, count: int = 3, seed: int = 0) -> Feeds:
    """Calibration data: `count` samples along a leading axis."""
    rng = np.random.default_rng(seed)
    info = model.graph.input[0]
    shape = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
    return {info.name: rng.standard_normal((count, *shape)).astype(np.float32)}
