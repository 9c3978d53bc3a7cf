"""The four workloads of the TVM paper's figure 4, on which it compares fused and single kernels."""

from __future__ import annotations

from onnx import ModelProto

from case import Case
from tcopt.frontends.onnx.building.network import Network

_HIDDEN = 128


def _convolution(size: int, inputs: int, outputs: int, kernel: int, groups: int) -> ModelProto:
    """A convolution with its batch normalisation and ReLU."""
    net = Network("fusion")
    x = net.input("x", [1, inputs, size, size])
    x = net.conv(x, inputs, outputs, kernel, groups=groups, bias=False)
    shape = [1, outputs, size, size]
    return net.model(**{net.add("Relu", net.batch_norm(x, outputs)): shape})


def conv_bn_relu() -> ModelProto:
    return _convolution(28, 128, 256, 1, 1)


def depthwise_bn_relu() -> ModelProto:
    return _convolution(14, 512, 512, 3, 512)


def _gates(net: Network, count: int) -> tuple[list[str], str, str]:
    """x W + h R + b, split into gates; the gates, x and h."""
    x, h = (net.input(name, [1, _HIDDEN]) for name in ("x", "h"))
    width = count * _HIDDEN
    summed = net.add("Add", net.linear(x, _HIDDEN, width), net.linear(h, _HIDDEN, width))
    if count == 1:
        return [summed], x, h
    sizes = net.ints(*[_HIDDEN] * count)
    return net.add_many("Split", count, summed, sizes, axis=1), x, h


def rnn_cell() -> ModelProto:
    """One step of a recurrent network: tanh(x W + h R + b)."""
    net = Network("rnn_cell")
    (gate,), _, _ = _gates(net, 1)
    return net.model(**{net.add("Tanh", gate): [1, _HIDDEN]})


def lstm_cell() -> ModelProto:
    """One step of an LSTM, from single operators."""
    net = Network("lstm_cell")
    (i, o, f, g), _, _ = _gates(net, 4)
    i, o, f = (net.add("Sigmoid", gate) for gate in (i, o, f))
    kept = net.add("Mul", f, net.input("c", [1, _HIDDEN]))
    cell = net.add("Add", kept, net.add("Mul", i, net.add("Tanh", g)))
    hidden = net.add("Mul", o, net.add("Tanh", cell))
    return net.model(**{hidden: [1, _HIDDEN], cell: [1, _HIDDEN]})


CASES = [
    Case("conv_bn_relu", conv_bn_relu, "28x28, 128 to 256, 1x1, batch norm, ReLU"),
    Case("depthwise_bn_relu", depthwise_bn_relu, "14x14, 512, 3x3, batch norm, ReLU"),
    Case("rnn_cell", rnn_cell, "a step of a recurrent network of 128"),
    Case("lstm_cell", lstm_cell, "a step of an LSTM of 128"),
]
