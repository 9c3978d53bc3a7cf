"""`tcopt-check` and `check_model` report all problems at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from models.convolutional import residual_net
from models.tool_models import save_dense_relu
from tcopt.frontends.onnx import check_model, import_model
from tcopt.support.errors import InputError, TcoptError
from tcopt.tools import tcopt_check, tcopt_compile, tcopt_run

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Output = pytest.CaptureFixture[str]


def node(op: str, inputs: str = "x", output: str = "y", **attributes) -> NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=f"n_{output}", **attributes)


def model_of(*nodes: NodeProto, outputs: str = "y", shape=(2, 3), opset: int = 17) -> ModelProto:
    infos = [
        helper.make_tensor_value_info("x", FLOAT, shape),
        helper.make_tensor_value_info("s", INT64, [2]),
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
    graph = helper.make_graph(list(nodes), "test", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def found(model: ModelProto) -> dict[str | None, TcoptError]:
    """Return the problems of a model, by node."""
    return {error.where: error for error in check_model(model).problems}


def test_everything_is_found_at_once() -> None:
    """Every kind of problem has its node, operator, opset, inputs and advice."""
    model = model_of(
        node("Custom", "x", "a", domain="com.example"),
        node("Rleu", "a", "b"),
        node("Gelu", "x", "c"),
        helper.make_node("Bar", ["b"], ["d"], name="n_d", domain="com.example"),
        node("Flatten", "x", "e", axis=9),
        node("Add", "x gone", "f"),
        node("Not", "x", "g"),
        node("Relu", "x", "h", alpha=1.0),
        node("Relu", "j", "i"),
        node("Custom", "i", "j", domain="com.example"),
        helper.make_node("Relu", ["x"], ["a"], name="n_twice"),
        outputs="d e f g h i k",
    )
    errors = found(model)
    expected = {
        "n_twice": ("bad-model", "'a' is defined twice", "float[2x3]"),
        "n_a": ("unsupported", "com.example.Custom is not supported", "float[2x3]"),
        "n_b": ("unsupported", "no operator 'Rleu' in opset 17", "float[2x3]"),
        "n_c": ("unsupported", "no operator 'Gelu' in opset 17", "float[2x3]"),
        "n_d": ("unsupported", "com.example.Bar is not supported", "?"),
        "n_e": ("bad-model", "axis 9 is out of range", "float[2x3]"),
        "n_f": ("bad-model", "'gone' is used but nothing", "float[2x3], ?"),
        "n_g": ("bad-model", "cannot be tensor(float)", "float[2x3]"),
        "n_h": ("bad-model", "no attribute 'alpha'", "float[2x3]"),
        "n_j": ("unsupported", "com.example.Custom is not supported", "?"),
    }
    for name, (code, message, inputs) in expected.items():
        error = errors.pop(name)
        assert (error.code, message in error.message) == (code, True), error
        assert error.node is not None and error.hint
        assert f"({inputs})" in str(error.node)
    assert "form a cycle" in errors.pop("n_i").message
    assert [error.message for error in errors.values()] == ["nothing defines the output 'k'"]
    assert "did you mean 'Relu'" in (found(model)["n_b"].hint or "")
    assert "since opset 20" in (found(model)["n_c"].hint or "")


def test_problems_inside_bodies_and_functions() -> None:
    body = helper.make_graph(
        [node("Custom", "x", "u", domain="com.example")],
        "then",
        [],
        [helper.make_empty_tensor_value_info("u")],
    )
    other = helper.make_graph(
        [node("Foo", "x", "v")], "else", [], [helper.make_empty_tensor_value_info("v")]
    )
    model = model_of(
        node("ReduceMax", "x", "m", keepdims=0),
        node("Cast", "m", "flag", to=TensorProto.BOOL),
        node("If", "flag", "y", then_branch=body, else_branch=other),
        node("Custom", "y", "z", domain="com.example"),
        outputs="z",
    )
    assert {"n_y/then_branch/n_u", "n_y/else_branch/n_v", "n_z"} <= set(found(model))
    with pytest.raises(TcoptError, match=r"com\.example\.Custom is not supported") as caught:
        import_model(model)
    assert caught.value.code == "unsupported"


def test_opsets_of_other_domains() -> None:
    """Errors give the version of the operator's domain, which a function may override."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 2)]
    inner = helper.make_node("Foo", ["a"], ["b"], name="n_inner", domain="mine")
    function = helper.make_function("own", "F", ["a"], ["b"], [inner], opsets)
    model = model_of(
        helper.make_node("Foo", ["x"], ["a"], name="n_outer", domain="mine"),
        helper.make_node("F", ["x"], ["b"], name="n_call", domain="own"),
        helper.make_node("Foo", ["x"], ["c"], name="n_none", domain="other"),
        outputs="a b c",
    )
    model.functions.append(function)
    model.opset_import.extend([helper.make_opsetid("mine", 3), helper.make_opsetid("own", 1)])
    shown = {name: str(error.node) for name, error in found(model).items()}
    assert shown == {
        "n_outer": "mine.Foo(float[2x3]) of opset 3",
        "n_call/n_inner": "mine.Foo(float[2x3]) of opset 2",
        "n_none": "other.Foo(float[2x3]) of no opset",
    }


def test_header_and_file(tmp_path: Path) -> None:
    model = model_of(node("Relu"), opset=1000)
    model.ir_version = 1000
    assert [error.code for error in check_model(model).problems] == ["unsupported"] * 2
    report = check_model(b"nonsense")
    assert report.summary is None and report.problems[0].code == "bad-model"
    with pytest.raises(InputError, match="does not exist"):
        check_model(tmp_path / "no.onnx")


def test_missing_files_are_all_named(tmp_path: Path) -> None:
    model = model_of(node("Add", "x w", "h"), node("Add", "h v"))
    for name in "wv":
        tensor = numpy_helper.from_array(np.ones(3, np.float32), name)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"{name}.bin")
        model.graph.initializer.append(tensor)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    report = check_model(path)
    assert [error.where for error in report.problems] == ["w", "v"]
    assert all("does not exist" in error.message for error in report.problems)


def test_values_that_come_with_a_run() -> None:
    """A shape given by an input is not a problem: the model is compiled for the values of a run."""
    report = check_model(
        model_of(
            node("Reshape", "x s"), node("Custom", "y", "z", domain="com.example"), outputs="z"
        )
    )
    assert [error.where for error in report.at_first_run] == ["n_y"]
    assert [error.where for error in report.problems] == ["n_z"]
    assert check_model(model_of(node("Reshape", "x s"))).passed
    given = check_model(model_of(node("Reshape", "x s")), values={"s": np.array([3, 2])})
    assert given.passed and not given.at_first_run


def test_open_dimensions_are_tried() -> None:
    """A dimension for which the model imports is found and reported."""
    net = residual_net(16, 4)
    del net.graph.value_info[:]
    for index in (0, 2, 3):
        net.graph.input[0].type.tensor_type.shape.dim[index].dim_param = f"d{index}"
    report = check_model(net)
    assert report.passed
    (shape,) = report.trial_shapes.values()
    assert shape[0] == 1
    assert report.summary is not None
    assert report.summary.open_dimensions == ("d0", "d2", "d3")
    sums = model_of(node("Concat", "x x", axis=1), shape=["n", "a + 1"])
    assert check_model(sums).trial_shapes == {"x": (1, 225)}
    given = check_model(sums, dims={"a": 4, "n": 2})
    assert given.passed and not given.trial_shapes


def test_a_sound_model(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "dense.onnx"
    save_dense_relu(path, batch="batch")
    assert tcopt_check.main([str(path)]) == 0
    output = capsys.readouterr().out
    for part in (
        "ai.onnx 17",
        "parameters      36 ",
        '"x" float[batch, 8]',
        "open dimensions batch (x -> y)",
        "1 Gemm, 1 Relu (2 nodes)",
        "no problem found",
    ):
        assert part in output
    assert tcopt_check.main([str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and report["summary"]["operators"] == {"Gemm": 1, "Relu": 1}
    assert report["summary"]["inputs"][0]["dims"] == ["batch", 8]


def test_a_bad_model(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "bad.onnx"
    names = [f"h{i}" for i in range(8)]
    nodes = [node("Custom", "x", name, domain="com.example") for name in names]
    onnx.save(model_of(*nodes, node("Sum", " ".join(names))), str(path))
    assert tcopt_check.main([str(path)]) == 1
    output = capsys.readouterr().out
    assert "  unsupported: operator com.example.Custom is not supported" in output
    assert "    at n_h0: com.example.Custom(float[2x3])" in output
    assert "    and 3 more (--all lists them)" in output
    assert "(docs/plugins.md)" in output
    assert "1 problem at 8 nodes" in output
    assert tcopt_check.main([str(path), "--all"]) == 1
    assert "at n_h7: " in capsys.readouterr().out
    assert tcopt_check.main([str(path), "--json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert len(problems) == 8
    assert problems[0]["operator"] == "com.example.Custom" and problems[0]["inputs"] == [
        "float[2x3]"
    ]


def test_bad_arguments(tmp_path: Path, capsys: Output) -> None:
    assert tcopt_check.main(["no.onnx"]) == 1
    assert "bad-input: there is no file 'no.onnx'" in capsys.readouterr().err
    path = tmp_path / "dense.onnx"
    save_dense_relu(path)
    assert tcopt_check.main([str(path), "--shape", "z:1"]) == 1
    assert "bad-input: the model has no input 'z'" in capsys.readouterr().err


def test_all_tools_tell_the_node(tmp_path: Path, capsys: Output) -> None:
    """The message of every compiling tool has node, operator, inputs, opset and advice."""
    path = tmp_path / "bad.onnx"
    onnx.save(model_of(node("Flatten", axis=7)), str(path))
    for tool in (tcopt_run, tcopt_compile):
        assert tool.main([str(path)]) == 1
        assert (
            "bad-model: Flatten: axis 7 is out of range for 2 dimensions (at n_y) in "
            "Flatten(float[2x3]) of opset 17; the model breaks ONNX's rules"
        ) in capsys.readouterr().err
