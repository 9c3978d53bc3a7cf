"""Memory-bound operators: few operations per element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from onnx import ModelProto, TensorProto

from case import Case
from tcopt.frontends.onnx.building.network import Network
from zoo.attention import gelu

Body = Callable[[Network, str], str]


def _unary(shape: Sequence[int], out: Sequence[int], body: Body) -> ModelProto:
    """A model with one input."""
    net = Network("memory")
    return net.model(**{body(net, net.input("x", shape)): out})


def _wide(op: str, shape: Sequence[int]) -> ModelProto:
    """An f64 function."""
    net = Network("wide")
    model = net.model(**{net.add(op, net.input("x", shape, TensorProto.DOUBLE)): shape})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    return model


def _node(op: str, **attributes: object) -> Body:
    return lambda net, x: net.add(op, x, **attributes)


def _rms_norm(net: Network, x: str) -> str:
    mean = net.add("ReduceMean", net.add("Mul", x, x), axes=[-1])
    root = net.add("Sqrt", net.add("Add", mean, net.scalar(1e-6)))
    return net.add("Mul", net.add("Div", x, root), net.normal([768], 0.1, 1.0))


def _resize(mode: str) -> Body:
    def body(net: Network, x: str) -> str:
        import numpy as np

        scales = net.weight(np.array([1, 1, 2, 2], np.float32))
        how = "asymmetric" if mode == "nearest" else "half_pixel"
        nearest = {"nearest_mode": "floor"} if mode == "nearest" else {}
        return net.add(
            "Resize", x, "", scales, mode=mode, coordinate_transformation_mode=how, **nearest
        )

    return body


def _concat(shape: Sequence[int], count: int) -> ModelProto:
    """Concatenation along the second axis."""
    net = Network("concat")
    parts = [net.input(f"x{i}", shape) for i in range(count)]
    channels = shape[1] * count
    return net.model(**{net.add("Concat", *parts, axis=1): [shape[0], channels, *shape[2:]]})


def _cumulate(net: Network, x: str) -> str:
    return net.add("CumSum", x, net.ints(1))


def _scatter(operator: str) -> Body:
    """Replace every third row of a matrix."""

    def body(net: Network, x: str) -> str:
        import numpy as np

        rows = np.arange(0, 4096, 3)[:, None]
        updates = net.normal([len(rows), 100], 1.0)
        if operator == "ScatterND":
            return net.add(operator, x, net.weight(rows), updates)
        return net.add(operator, x, net.weight(np.repeat(rows, 100, axis=1)), updates, axis=0)

    return body


def _points(net: Network, x: str) -> str:
    """Features of each point, and their maximum over all points."""
    y = net.add("Conv", x, net.normal([64, 3, 1], 0.5), net.normal([64], 0.1))
    return net.add("ReduceMax", net.add("Relu", y), axes=[2], keepdims=0)


def _roi_align(net: Network, x: str) -> str:
    """Twenty regions of an image, of various sizes."""
    import numpy as np

    corners = np.random.default_rng(0).uniform(0, 56, (20, 2, 2))
    regions = np.sort(corners, axis=1).reshape(20, 4).astype(np.float32)
    images = net.weight(np.zeros(20, np.int64))
    return net.add(
        "RoiAlign",
        x,
        net.weight(regions),
        images,
        output_height=7,
        output_width=7,
        sampling_ratio=2,
    )


def _grid_sample(net: Network, x: str) -> str:
    import numpy as np

    places = np.random.default_rng(0).uniform(-1, 1, (1, 56, 56, 2)).astype(np.float32)
    return net.add("GridSample", x, net.weight(places))


def _top_k(shape: Sequence[int], k: int) -> ModelProto:
    net = Network("top_k")
    x = net.input("x", shape)
    values, places = net.add_many("TopK", 2, x, net.ints(k))
    again = net.add("GatherElements", x, places, axis=-1)
    return net.model(**{net.add("Sub", values, again): [*shape[:-1], k]})


def _power(shape: Sequence[int]) -> ModelProto:
    """A power whose exponent is a tensor too."""
    net = Network("power")
    x, y = net.input("x", shape), net.input("y", shape)
    return net.model(**{net.add("Pow", net.add("Abs", x), y): shape})


def _add_relu(shape: Sequence[int]) -> ModelProto:
    net = Network("add_relu")
    x, y = net.input("x", shape), net.input("y", shape)
    return net.model(**{net.add("Relu", net.add("Add", x, y)): shape})


def _layer_norm(net: Network, x: str) -> str:
    return net.layer_norm(x, 768)


_POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
_IMAGE = [1, 64, 56, 56]

# Name, input and output shape, body.
_OPERATORS: tuple[tuple[str, list[int], list[int], Body], ...] = (
    ("softmax_attention", [1, 12, 128, 128], [1, 12, 128, 128], _node("Softmax", axis=-1)),
    ("softmax_1000", [64, 1000], [64, 1000], _node("Softmax", axis=-1)),
    ("layer_norm", [128, 768], [128, 768], _layer_norm),
    ("rms_norm", [128, 768], [128, 768], _rms_norm),
    ("gelu", [128, 3072], [128, 3072], gelu),
    ("sigmoid", [1, 64, 112, 112], [1, 64, 112, 112], _node("Sigmoid")),
    ("max_pool", [1, 64, 112, 112], [1, 64, 56, 56], _node("MaxPool", **_POOL)),
    ("average_pool", [1, 256, 28, 28], [1, 256, 14, 14], _node("AveragePool", **_POOL)),
    ("global_average_pool", [1, 2048, 7, 7], [1, 2048, 1, 1], _node("GlobalAveragePool")),
    (
        "transpose_heads",
        [1, 128, 12, 64],
        [1, 12, 128, 64],
        _node("Transpose", perm=[0, 2, 1, 3]),
    ),
    ("transpose_matrix", [1024, 768], [768, 1024], _node("Transpose", perm=[1, 0])),
    ("transpose_nhwc", [1, 56, 56, 64], _IMAGE, _node("Transpose", perm=[0, 3, 1, 2])),
    ("resize_nearest", _IMAGE, [1, 64, 112, 112], _resize("nearest")),
    ("cumulative_sum", [64, 64, 100], [64, 64, 100], _cumulate),
    ("scatter_nd", [4096, 100], [4096, 100], _scatter("ScatterND")),
    ("scatter_elements", [4096, 100], [4096, 100], _scatter("ScatterElements")),
    ("points", [1, 3, 1024], [1, 64], _points),
    ("grid_sample", _IMAGE, _IMAGE, _grid_sample),
    ("roi_align", _IMAGE, [20, 64, 7, 7], _roi_align),
    ("resize_linear", _IMAGE, [1, 64, 112, 112], _resize("linear")),
)

CASES = [
    *(
        Case(name, partial(_unary, shape, out, body), "x".join(map(str, shape)))
        for name, shape, out, body in _OPERATORS
    ),
    Case("add_relu", partial(_add_relu, [1, 256, 56, 56]), "two of 1x256x56x56"),
    Case("tanh_f64", partial(_wide, "Tanh", [256, 256]), "256x256 of f64"),
    Case("power", partial(_power, [64, 1000]), "two of 64x1000"),
    Case("top_k_few", partial(_top_k, [64, 1000], 5), "5 of each 1000, 64 times"),
    Case("top_k_many", partial(_top_k, [1, 8400], 300), "300 of 8400"),
    Case("concat", partial(_concat, _IMAGE, 4), "four of 1x64x56x56"),
    Case("concat_features", partial(_concat, [64, 100], 32), "32 of 64x100, side by side"),
]
