"""Which nodes are quantisable layers, and which values share a scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto, helper

from tcopt.frontends.onnx.building.network import Network
from tcopt.quantization.annotation import annotate
from tcopt.quantization.layers import Behind, layers_of
from tcopt.quantization.onnx_graph import open_graph


def _annotated(model: ModelProto) -> tuple[list[str], dict[str, str]]:
    graph = open_graph(model)
    layers = layers_of(graph)
    return [layer.operator for layer in layers], dict(annotate(graph, layers).values)


def test_layers_behind_operators_of_other_domains_are_known_by_their_weights() -> None:
    net = Network("custom")
    x = net.add("Mystery", net.input("x", [1, 3, 8, 8]), domain="some.where")
    model = net.model(**{net.conv(x, 3, 4): [1, 4, 8, 8]})
    model.opset_import.append(helper.make_opsetid("some.where", 1))
    operators, values = _annotated(model)
    assert operators == ["Conv"] and list(values) == [x]


def test_products_of_data_and_products_that_are_scaled() -> None:
    net = Network("products")
    x = net.input("x", [4, 4])
    both = net.add("MatMul", x, x)
    net.add("Gemm", both, net.normal([4, 4], 1.0), alpha=2.0)
    left = net.add("MatMul", net.normal([3, 4], 1.0), both)
    operators, values = _annotated(net.model(**{left: [3, 4]}))
    # A Gemm with alpha is not a layer.
    assert operators == ["MatMul", "MatMul"]
    assert values == {x: x, both: both}


def test_integers_and_doubles_are_no_layers() -> None:
    net = Network("doubles")
    x = net.add("Cast", net.input("x", [4, 4]), to=11)
    model = net.model(**{net.add("MatMul", x, net.weight(np.ones((4, 4), np.float64))): [4, 4]})
    model.graph.output[0].type.tensor_type.elem_type = 11
    assert _annotated(model) == ([], {})


def test_concatenated_parts_have_the_scale_of_the_whole() -> None:
    net = Network("concat")
    x = net.input("x", [1, 3, 8, 8])
    parts = [net.add("Relu", net.conv(x, 3, 4)) for _ in range(2)]
    whole = net.add("Concat", *parts, axis=1)
    _, values = _annotated(net.model(**{net.conv(whole, 8, 2): [1, 2, 8, 8]}))
    assert [values[part] for part in parts] == [whole, whole]


def test_a_part_that_something_else_needs_stays_where_it_is() -> None:
    net = Network("shared")
    x = net.input("x", [1, 3, 8, 8])
    part = net.add("Relu", net.conv(x, 3, 4))
    moved = net.add("Transpose", part, perm=[0, 1, 3, 2])
    left = net.add("Add", net.conv(moved, 4, 4), part)
    _, values = _annotated(net.model(**{left: [1, 4, 8, 8]}))
    assert part not in values and values[moved] == moved


def test_what_is_pooled_from_a_quantized_value_has_its_scale() -> None:
    net = Network("pooled")
    x = net.input("x", [1, 3, 8, 8])
    y = net.add("Relu", net.conv(x, 3, 4))
    pooled = net.add("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    both = net.add("Add", net.conv(y, 4, 4), net.conv(pooled, 4, 4))
    _, values = _annotated(net.model(**{both: [1, 4, 8, 8]}))
    assert values[y] == y and values[pooled] == y


def _beside(model: ModelProto, behind: Behind | None = None) -> list[tuple[str, ...]]:
    return [layer.beside for layer in layers_of(open_graph(model), behind or Behind())]


def _silu(net: Network, x: str) -> str:
    return net.add("Mul", x, net.add("Sigmoid", x))


def _gelu(net: Network, x: str) -> str:
    scaled = net.add("Div", x, net.weight(np.float32(2**0.5)))
    above = net.add("Add", net.add("Erf", scaled), net.weight(np.float32(1)))
    return net.add("Mul", net.add("Mul", x, above), net.weight(np.float32(0.5)))


def _tanh(net: Network, x: str) -> str:
    return net.add("Clip", net.add("Tanh", x), net.weight(np.float32(-0.5)))


@pytest.mark.parametrize("function", [_silu, _gelu, _tanh])
def test_a_function_behind_a_layer_has_integers_on_both_sides(
    function: Callable[[Network, str], str],
) -> None:
    net = Network("function")
    x = net.conv(net.input("x", [1, 3, 8, 8]), 3, 4)
    y = function(net, x)
    model = net.model(**{net.conv(y, 4, 2): [1, 2, 8, 8]})
    assert _beside(model) == [(x, y), ()]
    assert _beside(model, Behind(functions=False)) == [(), ()]


def test_a_bias_of_its_own_is_the_layers() -> None:
    net = Network("bias")
    x = net.add("MatMul", net.input("x", [4, 8]), net.normal([8, 8], 1.0))
    biased = net.add("Add", net.normal([8], 1.0), x)
    y = net.add("Gelu", biased)
    model = net.model(**{net.add("MatMul", y, net.normal([8, 4], 1.0)): [4, 4]})
    assert _beside(model) == [(biased, y), ()]


def test_what_is_no_function_of_one_value_or_costs_little_stays_in_floats() -> None:
    net = Network("none")
    x = net.input("x", [1, 4, 8, 8])
    cheap = net.add("HardSigmoid", net.conv(x, 4, 4))
    gate = net.add("Mul", x, net.add("Sigmoid", net.conv(cheap, 4, 4, 1)))
    used = net.conv(gate, 4, 4)
    both = net.add("Sub", net.add("Tanh", used), net.add("Relu", used))
    scaled = net.add("Mul", net.conv(both, 4, 4), net.normal([4, 1, 1], 1.0))
    model = net.model(**{net.add("Sigmoid", net.conv(net.add("Tanh", scaled), 4, 4)): [1, 4, 8, 8]})
    found = _beside(model)
    # The gate has a function; two users of `used` count as one; per-channel scales are not shared,
    # and nothing reads integers after the model's own result.
    assert [len(each) for each in found] == [0, 2, 2, 0, 0]


def test_addends_are_integers_too() -> None:
    net = Network("sums")
    x = net.add("Relu", net.conv(net.input("x", [1, 3, 8, 8]), 3, 4))
    y = net.conv(x, 4, 4)
    total = net.add("Add", y, x)
    model = net.model(**{net.conv(total, 4, 2): [1, 2, 8, 8]})
    assert _beside(model) == [(), (y,), ()]
    assert _beside(model, Behind(sums=False)) == [(), (), ()]
    _, values = _annotated(model)
    assert y not in values


def test_a_result_that_is_concatenated_has_the_scale_of_the_whole() -> None:
    net = Network("concat of functions")
    x = net.input("x", [1, 3, 8, 8])
    parts = [_silu(net, net.conv(x, 3, 4)) for _ in range(2)]
    whole = net.add("Concat", *parts, axis=1)
    graph = open_graph(net.model(**{net.conv(whole, 8, 2): [1, 2, 8, 8]}))
    values = annotate(graph, layers_of(graph, Behind())).values
    assert [values[part] for part in parts] == [whole, whole]
