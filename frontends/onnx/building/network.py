"""A small builder on top of onnx.helper, used to write networks for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper


class Network:
    """Collects nodes, weights and inputs of an ONNX graph; values are identified by name."""

    def __init__(self, name: str, *, seed: int = 0, opset: int = 17):
        self.name = name
        self.opset = opset
        self.rng = np.random.default_rng(seed)
        self.nodes = []
        self.inputs = []
        self.weights: list[TensorProto] = []

    def input(self, name: str, shape: Sequence[int | str], dtype: int = TensorProto.FLOAT) -> str:
        """Declare a graph input."""
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def weight(self, values: np.ndarray, name: str | None = None) -> str:
        """Add an initializer."""
        name = name or f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def normal(self, shape: Sequence[int], scale: float, mean: float = 0.0) -> str:
        """Add a normally distributed float32 initializer."""
        values = self.rng.standard_normal(shape) * scale + mean
        return self.weight(values.astype(np.float32))

    def ints(self, *values: int) -> str:
        """Add a 1-D int64 initializer."""
        return self.weight(np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        """Add a float32 scalar initializer."""
        return self.weight(np.array(value, np.float32))

    def add(self, op_type: str, *inputs: str, **attributes) -> str:
        """Add a node with one output; return the output's name."""
        return self.add_many(op_type, 1, *inputs, **attributes)[0]

    def add_many(self, op_type: str, outputs: int, *inputs: str, **attributes) -> list[str]:
        """Add a node with several outputs; return their names."""
        name = f"{op_type}_{len(self.nodes)}"
        results = [f"{name}_{i}" if i else f"{name}_out" for i in range(outputs)]
        self.add_named(op_type, results, *inputs, **attributes)
        return results

    def add_named(self, op_type: str, results: Sequence[str], *inputs: str, **attributes) -> None:
        """Add a node whose outputs have these names."""
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, results, name=name, **attributes))

    def conv(
        self,
        x: str,
        channels_in: int,
        channels_out: int,
        kernel: int = 3,
        stride: int = 1,
        *,
        groups: int = 1,
        bias: bool = True,
        gain: float = 2.0,
    ) -> str:
        """Add a "same"-padded convolution with He-scaled weights.

        Args:
            gain: ratio of the mean squares of output and input; 2 compensates for a ReLU.
        """
        shape = (channels_out, channels_in // groups, kernel, kernel)
        w = self.normal(shape, (gain / (shape[1] * kernel * kernel)) ** 0.5)
        operands = [x, w, self.normal([channels_out], 0.1)] if bias else [x, w]
        return self.add(
            "Conv",
            *operands,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def batch_norm(self, x: str, channels: int) -> str:
        """Add a batch normalisation with statistics close to those of its input."""
        scale, var = (
            self.weight(self.rng.uniform(low, high, channels).astype(np.float32))
            for low, high in ((0.8, 1.2), (1.0, 2.0))
        )
        bias, mean = self.normal([channels], 0.1), self.normal([channels], 0.1)
        return self.add("BatchNormalization", x, scale, bias, mean, var, epsilon=1e-5)

    def linear(self, x: str, width_in: int, width_out: int) -> str:
        """Add a MatMul and an Add, as in exported transformers."""
        w = self.normal([width_in, width_out], width_in**-0.5)
        return self.add("Add", self.add("MatMul", x, w), self.normal([width_out], 0.1))

    def gemm(self, x: str, width_in: int, width_out: int) -> str:
        """Add a fully connected layer on a 2-D value."""
        w = self.normal([width_out, width_in], (1.0 / width_in) ** 0.5)
        return self.add("Gemm", x, w, self.normal([width_out], 0.1), transB=1)

    def layer_norm(self, x: str, width: int) -> str:
        """Add a LayerNormalization over the last axis (opset 17)."""
        scale, bias = self.normal([width], 0.1, 1.0), self.normal([width], 0.1)
        return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def model(self, **outputs: Sequence[int | str]) -> ModelProto:
        """Return the model; `outputs` has the shape of each output by name."""
        infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in outputs.items()
        ]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, infos, self.weights)
        versions = {"": self.opset, **{node.domain: 1 for node in self.nodes if node.domain}}
        opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
        ir_version = 8 if self.opset < 21 else 10
        return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
