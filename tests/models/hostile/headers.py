"""Invalid versions, declarations, names and edges."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, helper

from models.hostile.building import (
    FLOAT,
    Models,
    info,
    ints,
    model_of,
    node,
)


def headers() -> Models:
    for version in (0, -1, 1, 2, 2**40):
        model = model_of(node("Relu"))
        model.ir_version = version
        yield f"IR version {version}", model
    for opset in (0, -5, 1, 1000, 2**60):
        model = model_of(node("Relu"))
        model.opset_import[0].version = opset
        yield f"opset {opset}", model
    model = model_of(node("Relu"))
    del model.opset_import[:]
    yield "no opset", model
    model = model_of(node("Relu"))
    model.opset_import.append(helper.make_opsetid("ai.onnx", 12))
    yield "two opsets", model
    model = model_of(node("Relu"))
    model.ClearField("graph")
    yield "no graph", model
    yield "no nodes and no outputs", model_of(outputs="")
    model = model_of(node("Relu"))
    model.graph.input[0].ClearField("type")
    yield "input without type", model
    model = model_of(node("Relu"))
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = FLOAT
    yield "input of sequences", model
    model = model_of(node("Relu"))
    model.graph.input[0].type.tensor_type.elem_type = 99
    yield "input of no type", model


def names() -> Models:
    yield "self loop", model_of(node("Relu", "y"))
    yield "cycle", model_of(node("Relu", "b", "a"), node("Relu", "a", "b"), outputs="a")
    yield "undefined", model_of(node("Relu", "gone"))
    yield "undefined output", model_of(node("Relu"), outputs="z")
    yield "output without name", _with_output(model_of(node("Relu")), "")
    yield "defined twice", model_of(node("Relu"), node("Exp"))
    yield "an input defined again", model_of(node("Relu", "x", "x"), outputs="x")
    yield "a weight defined again", model_of(node("Add", "x w", "w"), weights={"w": ints(1)})
    model = model_of(node("Relu"))
    model.graph.input.append(model.graph.input[0])
    yield "input twice", model
    model = model_of(node("Add", "x w"), weights={"w": np.ones(3, np.float32)})
    model.graph.initializer.append(model.graph.initializer[0])
    yield "weight twice", model
    model.graph.initializer[0].name = ""
    yield "weight without name", model
    model = model_of(node("Relu"))
    model.graph.input[0].name = ""
    yield "input without name", model
    model = model_of(node("Relu"))
    model.graph.output[0].CopyFrom(info("y", [1, 2, 3, 4]))
    yield "output of another rank", model
    for title, text in (
        ("format", "%s%n%x{0}{x!r}%(name)s"),
        ("escapes", "\x1b[2J\x1b]0;owned\x07\r\n\0"),
        ("quotes", '"; } @main () -> () { //'),
        ("directions", "\u202egnp.exe\u200b\U000e0041"),
        ("path", "../../etc/passwd"),
        ("long", "n" * 1_000_000),
    ):
        named = helper.make_node("Relu", [text], ["y"], name=text)
        yield f"undefined name: {title}", model_of(named)
        model = model_of(helper.make_node(text, ["x"], ["y"], name=text))
        yield f"operator name: {title}", model
        model = model_of(
            helper.make_node("Add", ["x", text], [f"{text}h"], name=text),
            helper.make_node("Relu", [f"{text}h"], ["y"], name=f"{text}2"),
            weights={text: np.ones(100, np.float32)},
            shape=(2, 100),
        )
        model.graph.name = text
        yield f"sound but odd name: {title}", model
        yield f"dimension name: {title}", _with_dimension(text)
    for title, text in (
        ("a long number", "n + " + "9" * 5_000),
        ("digits of a script", "n + ١²"),
        ("many", "+".join(f"n{i}" for i in range(100_000))),
        ("nothing", "+" * 1_000),
    ):
        yield f"sum of dimensions: {title}", _with_dimension(text)
    yield "open output without type", model_of(node("Relu"), shape=(2, "n"))


def _with_dimension(name: str) -> ModelProto:
    model = model_of(node("Relu"), shape=(2, name))
    model.graph.output[0].CopyFrom(info("y", [2, name]))
    return model


def _with_output(model: ModelProto, name: str) -> ModelProto:
    model.graph.output[0].name = name
    return model
