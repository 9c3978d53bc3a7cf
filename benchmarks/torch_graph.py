"""An ONNX model as PyTorch calls, whose kernels on NVIDIA devices are cuDNN's and cuBLAS's.

Only operators of the models of `gpu.py` have a form here; another one is a KeyError by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

Form = Callable[[Any, list[Any], Mapping[str, Any]], Any]
"""An operator: PyTorch, the inputs, and attributes with what else is known."""

_FORMS: dict[str, Form] = {}
_ON_HOST = ("Reshape", "Split", "Squeeze", "Unsqueeze", "Clip")
"""Operators whose later operands are shapes or limits, which are read without the device."""


@dataclass(frozen=True)
class _Step:
    """A node, as what `torch.compile` can trace: nothing of ONNX is left."""

    form: Form
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    known: Mapping[str, Any]


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
        arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self._weights = {name: self.tensor(array) for name, array in arrays.items()}
        self._outputs = [output.name for output in model.graph.output]
        self._steps = [self._step(node, arrays) for node in model.graph.node]

    def _step(self, node: NodeProto, arrays: Mapping[str, np.ndarray]) -> _Step:
        known: dict[str, Any] = {
            each.name: onnx.helper.get_attribute_value(each) for each in node.attribute
        }
        known["float"] = self._float
        if node.op_type in _ON_HOST and node.input[1:]:
            given = (arrays.get(name) for name in node.input[1:])
            known["given"] = [None if array is None else array.tolist() for array in given]
        if node.op_type == "LSTM":
            known["weights"] = self._lstm_weights(node, known["hidden_size"])
        return _Step(_FORMS[node.op_type], tuple(node.input), tuple(node.output), known)

    def _lstm_weights(self, node: NodeProto, size: int) -> list[Any]:
        """Weights of one direction; ONNX has gates in the order i, o, f, c, PyTorch i, f, c, o."""
        w, r, *bias = (self._weights[name][0] for name in node.input[1:4] if name)

        def in_order(rows: Any) -> Any:
            i, o, f, c = rows.split(size)
            return self._torch.cat((i, f, c, o)).contiguous()

        halves = [half for each in bias for half in each.split(4 * size)]
        return [in_order(each) for each in (w, r, *halves)]

    def tensor(self, array: np.ndarray) -> Any:
        """An array on the device; floats get the graph's type."""
        found = self._torch.from_numpy(np.array(array)).to(self._device)
        return found.to(self._float) if found.is_floating_point() else found

    def weight(self, name: str) -> Any:
        """An initializer on the device."""
        return self._weights[name]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs for tensors by name; nothing waits for the device."""
        values: dict[str, Any] = {"": None, **self._weights, **feeds}
        with self._torch.no_grad():
            for step in self._steps:
                inputs = [values[name] for name in step.inputs]
                results = step.form(self._torch, inputs, step.known)
                results = results if isinstance(results, tuple) else (results,)
                values.update(zip(step.outputs, results, strict=False))
        return [values[name] for name in self._outputs]


def _form(*names: str) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        _FORMS.update(dict.fromkeys(names, function))
        return function

    return register


def _elementwise(name: str) -> Callable[..., Any]:
    return lambda torch, inputs, known: getattr(torch, name)(*inputs)


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
def _conv(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    strides, groups = list(known.get("strides", (1, 1))), known.get("group", 1)
    bias = inputs[2] if inputs[2:] else None
    return torch.conv2d(*inputs[:2], bias, strides, _pads(known), 1, groups)


@_form("ConvTranspose")
def _transposed(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    bias, strides = inputs[2] if inputs[2:] else None, list(known.get("strides", (1, 1)))
    return torch.conv_transpose2d(*inputs[:2], bias, strides, _pads(known))


@_form("MaxPool")
def _max_pool(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    kernel, strides = list(known["kernel_shape"]), list(known.get("strides", (1, 1)))
    return torch.max_pool2d(inputs[0], kernel, strides, _pads(known))


@_form("GlobalAveragePool")
def _average(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return inputs[0].mean((2, 3), keepdim=True)


@_form("BatchNormalization")
def _batch_norm(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    x, scale, bias, mean, variance = inputs
    return torch.batch_norm(
        x, scale, bias, mean, variance, False, 0.0, known.get("epsilon", 1e-5), True
    )


@_form("LayerNormalization")
def _layer_norm(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    x, scale, *bias = inputs
    return torch.layer_norm(x, scale.shape, scale, *bias, eps=known.get("epsilon", 1e-5))


@_form("Softmax")
def _softmax(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return torch.softmax(inputs[0], known.get("axis", -1))


@_form("Gemm")
def _gemm(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    weights = inputs[1] if known.get("transB") else inputs[1].t()
    return torch.nn.functional.linear(inputs[0], weights, *inputs[2:])


@_form("Clip")
def _clip(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    low, high = (None if v is None else float(v) for v in [*known["given"], None][:2])
    return torch.clamp(inputs[0], low, high)


@_form("Flatten")
def _flatten(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return torch.flatten(inputs[0], known.get("axis", 1))


@_form("Reshape")
def _reshape(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    shape = [n or inputs[0].shape[i] for i, n in enumerate(known["given"][0])]
    return inputs[0].reshape(shape)


@_form("Transpose")
def _transpose(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return inputs[0].permute(list(known["perm"]))


@_form("Squeeze")
def _squeeze(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return inputs[0].squeeze(tuple(known["given"][0]))


@_form("Split")
def _split(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return torch.split(inputs[0], known["given"][0], known.get("axis", 0))


@_form("Unsqueeze")
def _unsqueeze(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    result = inputs[0]
    for axis in sorted(known["given"][0]):
        result = result.unsqueeze(axis)
    return result


@_form("Cast")
def _cast(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    types = {onnx.TensorProto.FLOAT: known["float"], onnx.TensorProto.INT64: torch.int64}
    return inputs[0].to(types[known["to"]])


@_form("Gather")
def _gather(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    table, indices = inputs
    axis = known.get("axis", 0)
    picked = table.index_select(axis, indices.reshape(-1))
    return picked.reshape((*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :]))


@_form("MatMulInteger")
def _bytes(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    return torch._int_mm(*inputs)


@_form("LSTM")
def _lstm(torch: Any, inputs: list[Any], known: Mapping[str, Any]) -> Any:
    """cuDNN's LSTM, of one layer and direction."""
    x, _, _, bias, lengths, *state = [*inputs, *(None,) * 7][:7]
    if lengths is not None or any(value is not None for value in inputs[7:]):
        raise KeyError("LSTM with lengths of sequences or peepholes")
    # States are [1, batch, size] in ONNX and in PyTorch.
    zeros = x.new_zeros(1, x.shape[1], known["hidden_size"])
    first = [zeros if value is None else value.contiguous() for value in state]
    options = (bias is not None, 1, 0.0, False, False, False)
    y, h, c = torch.lstm(x, first, known["weights"], *options)
    return y.unsqueeze(1), h, c
