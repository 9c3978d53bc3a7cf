"""QONNX's quantisers, against formulas from its documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import tcopt
from tcopt.support.errors import TcoptError
from tcopt.support.remarks import collect_remarks

DOMAIN = "qonnx.custom_op.general"


def model(
    nodes: list[NodeProto], values: dict[str, Any], shape: tuple[int, ...], domain: str = DOMAIN
) -> ModelProto:
    kept = [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in values.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [x], [y], kept)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def quant(
    x: np.ndarray,
    scale: Any,
    zero: Any,
    bits: int,
    *,
    signed: int = 1,
    narrow: int = 0,
    rounding_mode: str = "ROUND",
) -> np.ndarray:
    """Evaluate QONNX's `Quant`."""
    value = x / np.float32(scale) + np.float32(zero)
    if bits == 1 and signed:
        value = np.where(value >= 0, 1, -1)
    else:
        low = -(2 ** (bits - 1)) + narrow if signed else 0
        high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
        rounding = {"ROUND": np.rint, "CEIL": np.ceil, "FLOOR": np.floor}[rounding_mode]
        value = rounding(np.clip(value, low, high))
    return ((value - zero) * scale).astype(np.float32)


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("domain", [DOMAIN, "onnx.brevitas"])
@pytest.mark.parametrize(
    ("scale", "zero", "bits", "options"),
    [
        (0.5, 0, 2, {}),
        (0.5, 0, 2, {"narrow": 1}),
        (0.25, 2, 4, {"signed": 0}),
        (0.5, 1, 3, {"signed": 0}),
        (0.5, 0, 1, {}),
        (0.5, 0, 4, {"rounding_mode": "FLOOR"}),
        (0.5, 3, 4, {"rounding_mode": "CEIL", "signed": 0, "narrow": 1}),
        (0.01, 0, 12, {}),
        (0.5, 200, 8, {}),
    ],
)
def test_quant(scale: float, zero: int, bits: int, options: dict[str, Any], domain: str) -> None:
    x = np.arange(-24, 24, dtype=np.float32).reshape(2, 24) / 8
    node = helper.make_node("Quant", ["x", "s", "z", "b"], ["y"], domain=domain, **options)
    net = model([node], {"s": scale, "z": zero, "b": bits}, x.shape, domain)
    (y,) = tcopt.compile(net, cache=False).run({"x": x})
    np.testing.assert_array_equal(y, quant(x, scale, zero, bits, **options))


def test_bipolar_quant() -> None:
    """0 counts as positive, and so does minus 0."""
    x = np.array([[-1.5, -0.0, 0.0, 2.0]], np.float32)
    node = helper.make_node("BipolarQuant", ["x", "s"], ["y"], domain=DOMAIN)
    (y,) = tcopt.compile(model([node], {"s": 0.5}, x.shape), cache=False).run({"x": x})
    np.testing.assert_array_equal(y, [[-0.5, 0.5, 0.5, 0.5]])


@pytest.mark.parametrize("pad", [0, 1])
def test_a_convolution_counts_bits(pad: int) -> None:
    """Binary and two-bit layers use bit-packed words, with the same sums. Zero padding around data
    of -1 and 1 takes two bits."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((16, 64, 3, 3)).astype(np.float32)
    x = rng.standard_normal((1, 64, 6, 5)).astype(np.float32)
    nodes = [
        helper.make_node("BipolarQuant", ["x", "s"], ["d"], domain=DOMAIN),
        helper.make_node("BipolarQuant", ["w", "s"], ["v"], domain=DOMAIN),
        helper.make_node("Conv", ["d", "v"], ["y"], pads=[pad] * 4),
    ]
    net = model(nodes, {"s": 0.5, "w": weights}, x.shape)
    with collect_remarks() as remarks:
        compiled = tcopt.compile(net, passes={"before:bit-serial": "bit-serial{method=popcount}"})
    said = [str(each) for each in remarks if "done: bit-serial" in str(each)]
    assert said and f"data as {1 + pad} " in said[0]
    (y,) = compiled.run({"x": x})
    signs = [np.where(each >= 0, 1, -1) for each in (x, weights)]
    data = np.pad(signs[0], ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (2, 3))
    expected = np.einsum("nchwuv,ocuv->nohw", windows, signs[1]) * 0.25
    np.testing.assert_array_equal(y, expected.astype(np.float32))


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ({"s": 1, "z": 0, "b": 2}, {"rounding_mode": "TWICE"}, "TWICE"),
        ({"s": 1, "z": 0.5, "b": 2}, {}, "zero point"),
        ({"s": 1, "z": 0, "b": 0}, {}, "bits should be from 1 to 32"),
        ({"s": 1, "z": 0, "b": 2.5}, {}, "bits should be from 1 to 32"),
    ],
)
def test_what_is_refused(values: dict[str, Any], options: dict[str, Any], text: str) -> None:
    if "rounding_mode" in options:
        options = {**options, "signed": 0}
    node = helper.make_node("Quant", ["x", "s", "z", "b"], ["y"], domain=DOMAIN, **options)
    with pytest.raises(TcoptError, match=text):
        tcopt.compile(model([node], values, (1, 4)), cache=False)
