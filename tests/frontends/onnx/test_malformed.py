"""Broken, hostile or unsupported models: one clear error, no crash."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tcopt
from models.convolutional import residual_net
from models.network import Network
from tcopt.frontends.onnx import check_model, find_example_model, import_model
from tcopt.support.errors import ImportModelError, InputError, TcoptError, UnsupportedError
from tcopt.support.remarks import collect_remarks

FLOAT = TensorProto.FLOAT


def model_of(*nodes, outputs=("y",), weights=(), shape=(2, 3), **options) -> ModelProto:
    infos = [helper.make_tensor_value_info("x", FLOAT, shape)]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(list(nodes), "test", infos, results, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], **options)


def node(op_type: str, inputs: str = "x", output: str = "y", **attributes) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], name=f"n_{output}", **attributes)


# Invalid files.


def test_no_such_file(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        import_model(tmp_path / "absent.onnx")
    with pytest.raises(InputError, match="is not a file"):
        import_model(tmp_path)


@pytest.mark.parametrize("data", [b"", b"\x00", b"not a model", b"\xff" * 100])
def test_not_onnx(data: bytes, tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(ImportModelError, match="not an ONNX model"):
        import_model(path)
    with pytest.raises(ImportModelError, match="not an ONNX model"):
        import_model(data)


def test_no_such_example():
    with pytest.raises(InputError, match="there are light_bvlc_alexnet"):
        find_example_model("resnet")


BYTES = residual_net(16, 4).SerializeToString()


@given(st.integers(0, len(BYTES) - 1))
def test_truncated(length: int):
    with pytest.raises(TcoptError):
        import_model(BYTES[:length])


@given(st.lists(st.tuples(st.integers(0, len(BYTES) - 1), st.integers(0, 255)), max_size=6))
def test_damaged(changes: list[tuple[int, int]]):
    data = bytearray(BYTES)
    for place, value in changes:
        data[place] = value
    try:
        import_model(bytes(data))
    except TcoptError as error:
        assert str(error)


# Invalid versions.


@pytest.mark.parametrize(
    ("ir_version", "opset", "message"),
    [
        (2, 17, "IR version 2 is too old"),
        (1000, 17, "IR version 1000 is newer"),
        (8, 0, "opset 0 is not supported"),
        (8, 5, "Relu has another form in opset 5"),
        (8, 1000, "opset 1000 is not supported"),
    ],
)
def test_versions_outside_the_range(ir_version: int, opset: int, message: str):
    model = model_of(node("Relu"), ir_version=ir_version)
    model.opset_import[0].version = opset
    with pytest.raises(UnsupportedError, match=message):
        import_model(model)


def test_no_opset():
    model = model_of(node("Relu"))
    del model.opset_import[:]
    with pytest.raises(ImportModelError, match="imports no opset"):
        import_model(model)


# Invalid names.


def test_cycle():
    with pytest.raises(ImportModelError, match=r"cycle \(at n_[ab]\)"):
        import_model(
            model_of(node("Relu", "b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y"))
        )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (model_of(node("Relu", "gone")), r"'gone' is used but nothing defines it \(at n_y\)"),
        (model_of(node("Relu"), node("Exp")), r"'y' is defined twice \(at n_y\)"),
        (model_of(node("Relu", "x", "x")), "'x' is defined twice"),
        (model_of(node("Relu"), outputs=["z"]), "nothing defines the output 'z'"),
        (model_of(node("Relu"), outputs=[]), "has no outputs"),
        (model_of(node("Relu"), outputs=[""]), "nothing defines the output ''"),
    ],
)
def test_names_that_do_not_fit(model: ModelProto, message: str):
    with pytest.raises(ImportModelError, match=message):
        import_model(model)


def test_names_used_twice():
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    with pytest.raises(ImportModelError, match="the weight 'w' is defined twice"):
        import_model(model_of(node("Add", "x w"), weights=[weight, weight]))
    model = model_of(node("Relu"))
    model.graph.input.append(model.graph.input[0])
    with pytest.raises(ImportModelError, match="the input 'x' is declared twice"):
        import_model(model)


# Invalid nodes.


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (node("Relu", "x x"), "Relu takes 1 inputs, but has 2"),
        (node("Add", "x"), "Add takes 2 inputs, but has 1"),
        (node("Relu", alpha=1.0), "Relu has no attribute 'alpha'"),
        (node("Softmax", axis=1.5), "attribute 'axis' of Softmax should be int, not float"),
        (node("Cast"), "Cast lacks its required attribute 'to'"),
        (node("Not"), r"input 0 \(X\) of Not cannot be tensor\(float\).*it takes tensor\(bool\)"),
        (node("Cast", to=12345), "number 12345"),
        (node("Flatten", axis=7), "axis 7 is out of range for 2 dimensions"),
    ],
)
def test_nodes_that_break_the_schema(bad: onnx.NodeProto, message: str):
    with pytest.raises(TcoptError, match=message) as caught:
        import_model(model_of(bad))
    assert "n_y" in str(caught.value)


def test_types_that_must_agree():
    weight = numpy_helper.from_array(np.ones(3, np.int64), "w")
    with pytest.raises(ImportModelError, match=r"one type, not tensor\(float\) and tensor\(int64"):
        import_model(model_of(node("Add", "x w"), weights=[weight]))


def test_everything_unsupported_is_told_at_once():
    model = model_of(
        node("Custom", "x", "a", domain="com.example"),
        node("Relu", "a", "b"),
        node("Foo", "b", "c"),
        helper.make_node("Bar", ["c"], ["d"], domain="com.example"),
        node("Custom", "d", "y", domain="com.example"),
    )
    with pytest.raises(UnsupportedError) as caught:
        import_model(model)
    text = str(caught.value)
    assert 'com.example.Custom is not supported (at "n_a", "n_y")' in text
    assert "no operator 'Foo' in opset 17 (at \"n_c\")" in text
    assert 'com.example.Bar is not supported (at "Bar:d")' in text


@pytest.mark.parametrize("declared", [[2, 3, 4], [6], [], [2, 4], ["n", 3, "n"]])
def test_shapes_of_outputs_that_are_stale(declared: list, rng: np.random.Generator):
    """Inferred types take precedence, as in onnxruntime; the mismatch is a remark and a note of a
    check."""
    model = model_of(node("Relu"))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, declared))
    x = rng.standard_normal((2, 3), np.float32)
    with collect_remarks() as remarks:
        import_model(model)
    (said,) = (remark for remark in remarks if remark.by == "import-onnx")
    assert "output 'y' is declared as" in said.message and "compute [2x3]" in said.message
    assert said.message in check_model(model).notes
    (y,) = tcopt.compile(model, workers=0).run({"x": x})
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_outputs_that_contradict_their_declaration():
    model = model_of(node("Relu"))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.INT64, [2, 3]))
    with pytest.raises(ImportModelError, match="declared with i64 elements"):
        import_model(model)


# Invalid tensors.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"raw_data": b"123"}, "needs 12 bytes, its data has 3"),
        ({"dims": [-3]}, "negative dimension"),
        ({"dims": [2**40, 2**40]}, "needs"),
        ({"data_type": 0}, "undefined"),
        ({"data_type": TensorProto.STRING}, "string"),
    ],
)
def test_weights_that_cannot_be(change: dict, message: str):
    fields = {"name": "w", "dims": [3], "data_type": FLOAT, "raw_data": bytes(12)} | change
    with pytest.raises(TcoptError, match=message):
        import_model(model_of(node("Add", "x w"), weights=[TensorProto(**fields)]))


def test_results_too_large():
    shape = numpy_helper.from_array(np.array([2**31, 2**31, 2, 3], np.int64), "s")
    with pytest.raises(ImportModelError, match=r"too large: .* GiB \(at n_y\)"):
        import_model(model_of(node("Expand", "x s"), weights=[shape]))


# Models that are too large.


def test_long_chains():
    names = ["x", *(f"h{i}" for i in range(3000)), "y"]
    nodes = [node("Relu", a, b) for a, b in pairwise(names)]
    module = import_model(model_of(*nodes))
    (function,) = module.ops
    assert sum(1 for _ in function.regions[0].block.ops) == 3002


def bomb(depth: int, width: int) -> ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("b", 1)]
    functions = []
    for level in range(depth):
        inner = ("Relu", "") if level == 0 else (f"F{level - 1}", "b")
        names = ["a", *(f"v{i}" for i in range(width))]
        nodes = [helper.make_node(inner[0], [p], [q], domain=inner[1]) for p, q in pairwise(names)]
        functions.append(helper.make_function("b", f"F{level}", ["a"], names[-1:], nodes, opsets))
    call = helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="b", name="boom")
    model = model_of(call, functions=functions)
    model.opset_import.append(opsets[1])
    return model


def test_function_bombs():
    # Computed from the sizes of the bodies, before any is expanded.
    with pytest.raises(ImportModelError, match="expand to more than"):
        import_model(bomb(8, 100))


def test_functions_that_call_themselves():
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("b", 1)]
    call = helper.make_node("F", ["a"], ["c"], domain="b")
    function = helper.make_function("b", "F", ["a"], ["c"], [call], opsets)
    start = helper.make_node("F", ["x"], ["y"], domain="b", name="start")
    with pytest.raises(ImportModelError, match="nested more than 64 deep"):
        import_model(model_of(start, functions=[function]))


# Invalid external data.


def external_model(folder: Path, location: str, **entries: str) -> Path:
    net = Network("external")
    net.input("x", [64])
    w = net.weight(np.arange(64, dtype=np.float32), "w")
    y = net.add("Add", "x", w)
    model = net.model(**{y: [64]})
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


DATA = np.arange(64, dtype=np.float32).tobytes()


def test_external_data_beside_the_model(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"head" + DATA)
    path = external_model(tmp_path, "sub/w.bin", offset="4", length="256")
    import_model(path).verify()
    with pytest.raises(ImportModelError, match="cannot be imported from memory"):
        import_model(path.read_bytes())


@pytest.mark.parametrize("location", ["../w.bin", "sub/../../w.bin", "", "a\0b", "..\\w.bin"])
def test_external_data_elsewhere(location: str, tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(DATA)
    (tmp_path / "models").mkdir()
    with pytest.raises(ImportModelError, match=r"not a path inside|no valid file name"):
        import_model(external_model(tmp_path / "models", location))


def test_external_data_by_absolute_path(tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(DATA)
    with pytest.raises(ImportModelError, match="not a path inside"):
        import_model(external_model(tmp_path, str(tmp_path / "w.bin")))


def test_external_data_by_link(tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(DATA)
    (tmp_path / "models").mkdir()
    os.symlink(tmp_path / "w.bin", tmp_path / "models" / "w.bin")
    with pytest.raises(ImportModelError, match="links to a file outside"):
        import_model(external_model(tmp_path / "models", "w.bin"))


@pytest.mark.parametrize(
    "entries",
    [{"offset": "1"}, {"offset": "-4"}, {"length": "8"}, {"offset": "many"}, {"length": "-1"}],
)
def test_external_data_outside_the_file(entries: dict, tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(DATA)
    with pytest.raises(ImportModelError, match="external data"):
        import_model(external_model(tmp_path, "w.bin", **entries))


def test_external_data_that_is_absent(tmp_path: Path):
    with pytest.raises(ImportModelError, match=r"'w\.bin' does not exist"):
        import_model(external_model(tmp_path, "w.bin"))
