"""Loops, branches and functions: infinite, too many, too deep."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from onnx import ModelProto, NodeProto, helper

from models.hostile.building import (
    BOOL,
    INT64,
    MOST,
    Models,
    info,
    model_of,
    node,
)


def _loop(body_nodes, count: int) -> ModelProto:
    body = helper.make_graph(
        list(body_nodes),
        "body",
        [info("i", [], INT64), info("c_in", [], BOOL), info("v_in")],
        [info("c_in", [], BOOL), helper.make_empty_tensor_value_info("v_out")],
    )
    return model_of(
        helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body),
        weights={"n": np.array(count, np.int64)},
    )


def loops() -> Models:
    step = node("Relu", "v_in", "v_out")
    for count in (2**40, MOST, -1, 0):
        yield f"Loop of {count} steps", _loop([step], count)
    yield "Loop that doubles", _loop([node("Concat", "v_in v_in", "v_out", axis=0)], 60)
    no_end = _loop([step], 1)
    no_end.graph.node[0].input[0] = ""
    yield "Loop without end", no_end
    inner = helper.make_graph(
        [node("Relu", "w_in", "w_out")],
        "inner",
        [info("j", [], INT64), info("d_in", [], BOOL), info("w_in")],
        [info("d_in", [], BOOL), helper.make_empty_tensor_value_info("w_out")],
    )
    bodies = inner
    for level in range(6):
        bodies = helper.make_graph(
            [
                helper.make_node(
                    "Loop", ["n", "", f"w{level}"], [f"o{level}"], name="l", body=bodies
                )
            ],
            "outer",
            [info(f"j{level}", [], INT64), info(f"d{level}", [], BOOL), info(f"w{level}")],
            [info(f"d{level}", [], BOOL), helper.make_empty_tensor_value_info(f"o{level}")],
        )
    yield (
        "Loops in Loops",
        model_of(
            helper.make_node("Loop", ["n", "", "x"], ["y"], body=bodies),
            weights={"n": np.array(16, np.int64)},
        ),
    )
    yield "Ifs in Ifs", _nested_ifs(8)
    yield "deep Ifs", _nested_ifs(30, both=False)


def _nested_ifs(depth: int, *, both: bool = True) -> ModelProto:
    """Branches that contain two Ifs each: 2^depth nodes, which share memory."""
    flag = [node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "flag", to=BOOL)]
    relu = helper.make_graph(
        [node("Relu", "x", "b")], "leaf", [], [helper.make_empty_tensor_value_info("b")]
    )
    graph = relu
    for _ in range(depth):
        branch = helper.make_node(
            "If", ["flag"], ["b"], then_branch=graph, else_branch=graph if both else relu
        )
        graph = helper.make_graph(
            [branch], "branch", [], [helper.make_empty_tensor_value_info("b")]
        )
    return model_of(
        *flag, helper.make_node("If", ["flag"], ["y"], then_branch=graph, else_branch=relu)
    )


def _function(name: str, nodes, inputs=("a",), outputs=("c",)):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, list(inputs), list(outputs), list(nodes), opsets)


def _call(name: str, source: str, target: str, domain: str = "f") -> NodeProto:
    return helper.make_node(name, [source], [target], domain=domain, name=f"call_{target}")


def functions() -> Models:
    start = _call("F", "x", "y")
    yield "function of itself", model_of(start, functions=[_function("F", [_call("F", "a", "c")])])
    yield (
        "functions of each other",
        model_of(
            start,
            functions=[
                _function("F", [_call("G", "a", "c")]),
                _function("G", [_call("F", "a", "c")]),
            ],
        ),
    )
    steps = ["a", *(f"v{i}" for i in range(99)), "c"]
    levels = [_function("F0", [node("Relu", p, q) for p, q in pairwise(steps)])]
    for level in range(1, 9):
        calls = [_call(f"F{level - 1}", p, q) for p, q in pairwise(steps)]
        levels.append(_function(f"F{level}", calls))
    yield "function bomb", model_of(_call("F8", "x", "y"), functions=levels)
    chain = [_function("F0", [node("Relu", "a", "c")])]
    chain += [_function(f"F{i}", [_call(f"F{i - 1}", "a", "c")]) for i in range(1, 500)]
    yield "deep functions", model_of(_call("F499", "x", "y"), functions=chain)
    yield "function twice", model_of(start, functions=[chain[0], chain[0]])
    yield (
        "function without output",
        model_of(start, functions=[_function("F", [node("Relu", "a", "b")])]),
    )
    yield (
        "function of one name twice",
        model_of(start, functions=[_function("F", [node("Relu", "a", "c")], inputs=("a", "a"))]),
    )
    yield (
        "function with a cycle",
        model_of(
            start, functions=[_function("F", [node("Relu", "b", "c"), node("Relu", "c", "b")])]
        ),
    )
    own = _function("Relu", [node("Relu", "a", "c")])
    own.domain = ""
    yield "function of a standard name", model_of(node("Relu"), functions=[own])
    old = _function("F", [node("Relu", "a", "c")])
    old.opset_import[0].version = 2**40
    yield "function of a far opset", model_of(start, functions=[old])
