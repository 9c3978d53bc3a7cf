"""Wide or deep graphs: nothing recurses along them, and results are correct."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tcopt

SHAPE = [4, 5]


def model_of(nodes, inputs, outputs, weights=()) -> ModelProto:
    infos = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side.items()]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "deep", *infos, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def chain(operators: list[str], length: int) -> ModelProto:
    names = ["x", *(f"t{n}" for n in range(1, length)), "y"]
    nodes = [
        helper.make_node(operators[n % len(operators)], [names[n]], [names[n + 1]])
        for n in range(length)
    ]
    return model_of(nodes, {"x": SHAPE}, {"y": SHAPE})


@pytest.mark.nightly
@pytest.mark.parametrize(("axis", "count"), [(0, 500), (1, 60)])
def test_concatenations_of_many_parts(axis, count):
    parts = {f"x{n}": np.full((1 + n % 2, 3), n, np.float32) for n in range(count)}
    if axis:
        parts = {name: part.T.copy() for name, part in parts.items()}
    expected = np.concatenate(list(parts.values()), axis)
    node = helper.make_node("Concat", list(parts), ["y"], axis=axis)
    inputs = {name: list(part.shape) for name, part in parts.items()}
    model = tcopt.compile(model_of([node], inputs, {"y": list(expected.shape)}), workers=0)
    np.testing.assert_array_equal(model.run(parts)[0], expected)


def test_a_chain_of_3000_nodes(rng):
    """A value and its negation: results are exact however long the chain."""
    x = rng.standard_normal(SHAPE).astype(np.float32)
    model = tcopt.compile(chain(["Neg", "Neg", "Relu", "Abs"], 3000), workers=0)
    np.testing.assert_array_equal(model.run({"x": x})[0], np.maximum(x, 0))


@pytest.mark.nightly
def test_a_chain_of_sums(rng):
    x = rng.standard_normal(SHAPE).astype(np.float32)
    nodes, last = [], "x"
    for number in range(1000):
        name = "y" if number == 999 else f"t{number}"
        nodes.append(helper.make_node("Add", [last, "x" if number % 2 else "c"], [name]))
        last = name
    weight = numpy_helper.from_array(np.float32(0.5), "c")
    model = tcopt.compile(model_of(nodes, {"x": SHAPE}, {"y": SHAPE}, [weight]), workers=0)
    # At most a thousand roundings, each of half an ulp of the largest sum.
    np.testing.assert_allclose(model.run({"x": x})[0], x * 501 + 250, rtol=1e-4, atol=0.1)


def test_views_of_views():
    """Gathers of gathers: five hundred slices become one."""
    count = 500
    nodes, last = [], "x"
    for number in range(count):
        name = "y" if number == count - 1 else f"t{number}"
        nodes.append(helper.make_node("Slice", [last, "one", "end"], [name]))
        last = name
    weights = [
        numpy_helper.from_array(np.array([value], np.int64), name)
        for name, value in (("one", 1), ("end", 2**62))
    ]
    model = model_of(nodes, {"x": [count + 5]}, {"y": [5]}, weights)
    x = np.arange(count + 5, dtype=np.float32)
    np.testing.assert_array_equal(tcopt.compile(model).run({"x": x})[0], x[count:])


def test_conditions_in_conditions():
    """Conditions nested as deeply as a file allows."""

    def body(depth: int) -> tuple[list[onnx.NodeProto], onnx.ValueInfoProto]:
        result = helper.make_tensor_value_info(f"o{depth}", TensorProto.FLOAT, [3])
        if not depth:
            return [helper.make_node("Relu", ["x"], ["o0"])], result
        nodes, inner = body(depth - 1)
        other = helper.make_tensor_value_info(f"e{depth}", TensorProto.FLOAT, [3])
        branches = {
            "then_branch": helper.make_graph(nodes, f"then{depth}", [], [inner]),
            "else_branch": helper.make_graph(
                [helper.make_node("Neg", ["x"], [f"e{depth}"])], f"else{depth}", [], [other]
            ),
        }
        return [helper.make_node("If", ["c"], [f"o{depth}"], **branches)], result

    nodes, result = body(24)
    model = model_of(nodes, {"x": [3]}, {"y": [3]})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    model.graph.output[0].CopyFrom(result)
    compiled = tcopt.compile(model, workers=0)
    x = np.array([-1, 0, 2], np.float32)
    for condition, expected in ((True, np.maximum(x, 0)), (False, -x)):
        feeds = {"x": x, "c": np.array(condition)}
        np.testing.assert_array_equal(compiled.run(feeds)[0], expected)
