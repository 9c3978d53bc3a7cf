"""An ONNX model as calls of PyTorch, whose kernels for NVIDIA's devices are cuDNN's and cuBLAS's.

Only operators of the models of `gpu.py` have a form here; another one is a KeyError by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

Values = dict[str, Any]
_FORMS: dict[str, Callable[[Any, NodeProto, list[Any], Mapping[str, Any]], Any]] = {}


class TorchGraph:
    """A model on a device.

    Args:
        torch: the package.
        dtype: type of all floats, f32, f16 or bf16.
        device: where tensors are.
    """

    def __init__(self, torch: Any, model: ModelProto, dtype: str, device: str = "cuda"):
        self._torch, self._device = torch, device
        self._float = {
            "f32": torch.float32,
            "f16": torch.float16,
            "bf16": torch.bfloat16,
        }.get(dtype, torch.float32)
        self._nodes = [
            (node, {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})
            for node in model.graph.node
        ]
        for node, _ in self._nodes:
            _FORMS[node.op_type]
        self._weights = {
            t.name: self.tensor(numpy_helper.to_array(t)) for t in model.graph.initializer
        }
        self._kept: dict[str, Any] = {}
        # Operands that are shapes or limits are read on the host, without waiting for the device.
        self._shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self._outputs = [output.name for output in model.graph.output]

    def tensor(self, array: np.ndarray) -> Any:
        """An array on the device; floats get the graph's type."""
        found = self._torch.from_numpy(np.array(array)).to(self._device)
        return found.to(self._float) if found.is_floating_point() else found

    def weight(self, name: str) -> Any:
        """An initializer on the device."""
        return self._weights[name]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs for tensors by name; nothing waits for the device."""
        values: Values = {"": None, **self._weights, **feeds}
        with self._torch.no_grad():
            for node, attributes in self._nodes:
                known = {**attributes, "float": self._float, "kept": self._kept}
                if (
                    node.op_type in ("Reshape", "Split", "Squeeze", "Unsqueeze", "Clip")
                    and node.input[1:]
                ):
                    known["given"] = [self._shapes.get(name) for name in node.input[1:]]
                inputs = [values[name] for name in node.input]
                results = _FORMS[node.op_type](self._torch, node, inputs, known)
                results = results if isinstance(results, tuple) else (results,)
                values.update(zip(node.output, results, strict=False))
        return [values[name] for name in self._outputs]


def _form(*names: str) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        _FORMS.update(dict.fromkeys(names, function))
        return function

    return register


def _elementwise(name: str) -> Callable[..., Any]:
    return lambda torch, node, inputs, known: getattr(torch, name)(*inputs)


for _onnx, _torch in {
    "Add": "add",
    "Div": "div",
    "Erf": "erf",
    "MatMul": "matmul",
    "Mul": "mul",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Sub": "sub",
    "Tanh": "tanh",
}.items():
    _FORMS[_onnx] = _elementwise(_torch)


def _pads(known: Mapping[str, Any]) -> list[int]:
    pads = list(known.get("pads", (0, 0, 0, 0)))
    if pads[:2] != pads[2:]:
        raise KeyError("pads that differ at the two ends")
    return pads[:2]


@_form("Conv")
def _conv(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    strides, groups = list(known.get("strides", (1, 1))), known.get("group", 1)
    bias = inputs[2] if inputs[2:] else None
    return torch.conv2d(*inputs[:2], bias, strides, _pads(known), 1, groups)


@_form("ConvTranspose")
def _transposed(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    bias, strides = inputs[2] if inputs[2:] else None, list(known.get("strides", (1, 1)))
    return torch.conv_transpose2d(*inputs[:2], bias, strides, _pads(known))


@_form("MaxPool")
def _max_pool(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    kernel, strides = list(known["kernel_shape"]), list(known.get("strides", (1, 1)))
    return torch.max_pool2d(inputs[0], kernel, strides, _pads(known))


@_form("GlobalAveragePool")
def _average(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return inputs[0].mean((2, 3), keepdim=True)


@_form("BatchNormalization")
def _batch_norm(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    x, scale, bias, mean, variance = inputs
    return torch.batch_norm(
        x, scale, bias, mean, variance, False, 0.0, known.get("epsilon", 1e-5), True
    )


@_form("LayerNormalization")
def _layer_norm(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    x, scale, *bias = inputs
    return torch.layer_norm(x, scale.shape, scale, *bias, eps=known.get("epsilon", 1e-5))


@_form("Softmax")
def _softmax(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return torch.softmax(inputs[0], known.get("axis", -1))


@_form("Gemm")
def _gemm(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    weights = inputs[1] if known.get("transB") else inputs[1].t()
    return torch.nn.functional.linear(inputs[0], weights, *inputs[2:])


@_form("Clip")
def _clip(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    low, high = (None if v is None else float(v) for v in [*known["given"], None][:2])
    return torch.clamp(inputs[0], low, high)


@_form("Flatten")
def _flatten(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return torch.flatten(inputs[0], known.get("axis", 1))


@_form("Reshape")
def _reshape(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    shape = [n or inputs[0].shape[i] for i, n in enumerate(known["given"][0].tolist())]
    return inputs[0].reshape(shape)


@_form("Transpose")
def _transpose(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return inputs[0].permute(list(known["perm"]))


@_form("Squeeze")
def _squeeze(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return inputs[0].squeeze(tuple(known["given"][0].tolist()))


@_form("Split")
def _split(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return torch.split(inputs[0], known["given"][0].tolist(), known.get("axis", 0))


@_form("Unsqueeze")
def _unsqueeze(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    result = inputs[0]
    for axis in sorted(known["given"][0].tolist()):
        result = result.unsqueeze(axis)
    return result


@_form("Cast")
def _cast(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    types = {onnx.TensorProto.FLOAT: known["float"], onnx.TensorProto.INT64: torch.int64}
    return inputs[0].to(types[known["to"]])


@_form("Gather")
def _gather(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    table, indices = inputs
    axis = known.get("axis", 0)
    picked = table.index_select(axis, indices.reshape(-1))
    return picked.reshape((*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :]))


@_form("MatMulInteger")
def _bytes(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return torch._int_mm(*inputs)


@_form("LSTM")
def _lstm(torch: Any, node: NodeProto, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    """cuDNN's LSTM; ONNX has its gates in the order i, o, f, c, and PyTorch i, f, c, o."""
    x, w, r, bias, lengths, *state = [*inputs, *(None,) * 7][:7]
    if lengths is not None or any(value is not None for value in inputs[7:]):
        raise KeyError("LSTM with lengths of sequences or peepholes")
    size = known["hidden_size"]

    def in_order(rows: Any) -> Any:
        i, o, f, c = rows.split(size)
        return torch.cat((i, f, c, o)).contiguous()

    # Weights are put into PyTorch's order once, not in each run.
    weights: list[Any] | None = known["kept"].get(node.output[0])
    if weights is None:
        weights = [in_order(w[0]), in_order(r[0])]
        if bias is not None:
            weights += [in_order(half) for half in bias[0].split(4 * size)]
        known["kept"][node.output[0]] = weights
    # One layer of one direction: states are [1, batch, size] in ONNX and in PyTorch.
    zeros = x.new_zeros(1, x.shape[1], size)
    first = [zeros if value is None else value.contiguous() for value in state]
    y, h, c = torch.lstm(x, first, weights, bias is not None, 1, 0.0, False, False, False)
    return y.unsqueeze(1), h, c
