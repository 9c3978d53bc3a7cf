"""One-layer models whose data and weights have few bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator


@dataclass(frozen=True)
class Layer:
    """A quantised convolution, or with `kernel = 0` a matrix product, between quantisers.

    Attributes:
        data, weights: ONNX element types.
        numbers: possible values of weights.
        zero: the data's zero point.
        requantised: whether the result is quantised like the data, or float.
    """

    shape: tuple[int, ...] = (1, 64, 7, 5)
    outputs: int = 32
    kernel: int = 3
    pad: int = 1
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    data: str = "UINT2"
    weights: str = "INT2"
    numbers: Sequence[int] = (-1, 1)
    zero: int = 0
    requantised: bool = False
    gemm: bool = False

    def model(self, seed: int = 0) -> ModelProto:
        """Return the model, from `x` to `y`."""
        rng = np.random.default_rng(seed)
        values: list[TensorProto] = []

        def value(name: str, numbers: object, element: str) -> str:
            array = np.asarray(numbers)
            kind = TensorProto.DataType.Value(element)
            values.append(helper.make_tensor(name, kind, array.shape, array.ravel().tolist()))
            return name

        channels = self.shape[1] if self.kernel else self.shape[-1]
        kernel = [self.kernel] * (len(self.shape) - 2)
        shape = [self.outputs, channels // self.groups, *kernel]
        if not self.kernel:
            shape = [self.outputs, channels] if self.gemm else [channels, self.outputs]
        weights = rng.choice(np.array(self.numbers), shape)
        value("w", weights, self.weights)
        value("ws", rng.uniform(0.5, 1, self.outputs).astype(np.float32), "FLOAT")
        value("wz", np.zeros(self.outputs, np.int64), self.weights)
        value("s", np.float32(0.5), "FLOAT")
        value("z", self.zero, self.data)
        value("b", rng.standard_normal(self.outputs).astype(np.float32), "FLOAT")
        axis = 1 if not self.kernel and not self.gemm else 0
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=axis),
            *self._contraction(kernel),
        ]
        if self.requantised:
            value("t", np.float32(0.05 * channels), "FLOAT")
            nodes.append(helper.make_node("QuantizeLinear", ["c", "t", "z"], ["r"]))
            nodes.append(helper.make_node("DequantizeLinear", ["r", "t", "z"], ["y"]))
        else:
            nodes.append(helper.make_node("Identity", ["c"], ["y"]))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "layer", [x], [y], values)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)

    def _contraction(self, kernel: Sequence[int]) -> list[NodeProto]:
        if not self.kernel:
            if self.gemm:
                return [helper.make_node("Gemm", ["d", "v", "b"], ["c"], transB=1)]
            product = helper.make_node("MatMul", ["d", "v"], ["p"])
            return [product, helper.make_node("Add", ["p", "b"], ["c"])]
        rank = len(kernel)
        convolution = helper.make_node(
            "Conv",
            ["d", "v", "b"],
            ["c"],
            kernel_shape=kernel,
            strides=[self.stride] * rank,
            dilations=[self.dilation] * rank,
            pads=[self.pad] * 2 * rank,
            group=self.groups,
        )
        return [convolution]

    def inputs(self, seed: int = 1) -> np.ndarray:
        """Return data that covers all values, and exceeds the range."""
        numbers = np.random.default_rng(seed).uniform(-5, 5, self.shape)
        return numbers.astype(np.float32)

    def expected(self, x: np.ndarray, seed: int = 0) -> np.ndarray:
        """Run ONNX's reference evaluator."""
        (y,) = ReferenceEvaluator(self.model(seed)).run(None, {"x": x})
        return np.asarray(y)
