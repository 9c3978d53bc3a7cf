"""Which nodes are layers, and which values share a scale."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, helper

from tcopt.frontends.onnx.building.network import Network
from tcopt.quantization.annotation import annotate
from tcopt.quantization.layers import layers_of
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
    # A Gemm that scales its sums is none.
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
