"""`tcopt-run --compare ... --per-layer`: the first layer whose result differs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from models.tool_models import dense_relu, save_dense_relu
from tcopt.tools import tcopt_run
from tcopt.tools.execution import prepared_code
from tcopt.tools.execution.prepared_code import kernel_symbol
from tcopt.tools.results.layers import compare_layers, layers_report, with_all_results
from tcopt.tools.results.observed import KernelRun, Written, in_layout_of, match_values

BLOCKED = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1, 3, 9, 9] x) => (float[1, 8, 7, 7] y) {
  a = Conv(x, v)  b = Relu(a)  c = Conv<pads = [1, 1, 1, 1]>(b, w)  y = Relu(c) }"""
Output = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dense.onnx"
    save_dense_relu(path)
    return path


def test_all_results_become_outputs(model: Path) -> None:
    source, layers = with_all_results(str(model))
    assert [layer.value for layer in layers] == ["h", "y"]
    assert [layer.node for layer in layers] == ["dense", "activation"]
    assert source.outputs == ["y", "h"]
    assert source.users["h"] == ["activation"] and source.users["y"] == [""]


def test_the_first_that_departs_is_named(model: Path) -> None:
    """Later layers inherit its error; its operands are reported as close."""
    _, layers = with_all_results(str(model))
    h = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    theirs = {"h": h, "y": np.maximum(h, 0)}
    wrong = theirs["y"].copy()
    wrong[1, 3] += 0.5
    results = compare_layers(layers, {"h": h, "y": wrong}, theirs, rtol=1e-4, atol=0)
    assert [result.passed for result in results] == [True, False]
    text = layers_report(results, "onnxruntime", rtol=1e-4, atol=0)
    assert (
        "1 of 2 observed results differ from onnxruntime's, the first is that of Relu 'activation'"
        in text
    )
    assert "its inputs are within rtol 0" in text
    assert "max difference 0.5 at [1, 3]: 1.5 where 1 was expected" in text
    assert "the smallest passing rtol for all is 0.5" in text
    other = compare_layers(layers, {"h": h[:1], "y": wrong}, theirs, rtol=1e-4, atol=0)
    text = layers_report(other, "onnxruntime", rtol=1e-4, atol=0)
    assert "'dense':\n  h has another shape or type" in text


@pytest.mark.parametrize("runtime", ["onnxruntime", "reference"])
def test_compare_by_layers(runtime: str, model: Path, capsys: Output) -> None:
    arguments = [str(model), "--compare", runtime, "--per-layer"]
    assert tcopt_run.main(arguments) == 0
    output = capsys.readouterr().out
    assert f"all observed results agree with {runtime}'s" in output
    assert "1 kernel calls observed" in output
    assert re.search(r"dense +Gemm +fused\n", output)
    assert "activation  Relu      2x4" in output


def test_blocked_layers_are_compared(tmp_path: Path, capsys: Output) -> None:
    """Blocked channels, and a border that a kernel writes for the next one."""
    model = onnx.parser.parse_model(BLOCKED)
    rng = np.random.default_rng(0)
    for name, shape in (("v", (8, 3, 3, 3)), ("w", (8, 8, 3, 3))):
        weights = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    onnx.save(model, path := str(tmp_path / "blocked.onnx"))
    assert tcopt_run.main([path, "--compare", "reference", "--per-layer"]) == 0
    output = capsys.readouterr().out
    assert len(re.findall("Relu +1x8x7x7", output)) == 2
    assert "2 of 4 results are observed" in output


def test_a_layer_that_crashes_is_named(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Machine code runs in another process, so a crash becomes a message."""

    def trap(_: ModuleOp, function: FuncOp) -> str:
        body = "call void @llvm.trap()\n  ret void"
        return (
            f"declare void @llvm.trap()\ndefine void @{kernel_symbol(function)}() {{\n  {body}\n}}"
        )

    monkeypatch.setattr(prepared_code, "_kernel_text", trap)
    assert tcopt_run.main([str(model), "--compare", "reference", "--per-layer"]) == 1
    error = capsys.readouterr().err
    assert "the kernel of 'dense', 'activation'" in error and "SIG" in error


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_kernels_of_devices_are_refused(target: str, model: Path, capsys: Output) -> None:
    arguments = [str(model), "--compare", "reference", "--per-layer", "--target", target]
    assert tcopt_run.main(arguments) == 1
    assert "observes kernels of a CPU" in capsys.readouterr().err


def test_layouts() -> None:
    """Blocked channels, a border, merged axes and signless bytes match the layer; other values do
    not."""
    plain = np.arange(2 * 3 * 4 * 4, dtype=np.float32).reshape(2, 3, 4, 4)
    blocked = np.zeros((2, 1, 6, 6, 8), np.float32)
    blocked[:, 0, 1:5, 1:5, :3] = plain.transpose(0, 2, 3, 1)
    whole, cut = slice(None), slice(1, 5)
    found = in_layout_of(Written(blocked, (whole, whole, cut, cut, whole)), plain)
    np.testing.assert_array_equal(found, plain)
    rows = np.arange(24, dtype=np.int8).reshape(6, 4) - 12
    found = in_layout_of(Written(rows, ()), rows.reshape(2, 3, 4).view(np.uint8))
    np.testing.assert_array_equal(found, rows.reshape(2, 3, 4).view(np.uint8))
    assert in_layout_of(Written(rows, ()), np.zeros((4, 6), np.int8)) is None
    assert in_layout_of(Written(rows, ()), np.zeros((6, 4), np.float32)) is None


def test_a_part_of_a_node_is_not_its_value() -> None:
    """The first of a node's two kernels writes a different array of the same shape."""
    part, value = np.ones((2, 2)), np.full((2, 2), 3.0)
    kernels = [
        KernelRun(("softmax",), (Written(part, ()),)),
        KernelRun(("softmax", "product"), (Written(value, ()),)),
    ]
    produced = {"softmax": ["s"], "product": ["p"]}
    users = {"s": ["product"], "p": [""]}
    found = match_values(kernels, produced, users, {"s": value, "p": value})
    assert list(found) == ["p"]


def test_open_shapes(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "open.onnx"
    save_dense_relu(path, batch="batch")
    arguments = [str(path), "--compare", "reference", "--per-layer", "--shape", "x:3x8"]
    assert tcopt_run.main(arguments) == 0
    assert "activation  Relu      3x4" in capsys.readouterr().out


def test_the_reference_needs_no_other_package(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path
) -> None:
    """Without onnxruntime, a message says so, and `reference` compares."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert tcopt_run.main([str(model), "--compare", "onnxruntime"]) == 1
    assert "bad-input: onnxruntime is not installed; pip install" in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    arguments = ["--input", f"x=@{tmp_path}/x.npy", "--output", str(tmp_path / "y.npz")]
    assert tcopt_run.main([str(model), "--compare", "reference", *arguments]) == 0
    assert "y (2x4): ok" in capsys.readouterr().out
    expected = dense_relu(np.ones((2, 8), np.float32))
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], expected, rtol=1e-5, atol=1e-5)


def test_layers_of_nothing(model: Path, capsys: Output) -> None:
    assert tcopt_run.main([str(model), "--per-layer"]) == 1
    assert "--per-layer compares with another runtime; add --compare" in capsys.readouterr().err


def test_layers_over_a_size_that_the_program_defines(tmp_path: Path, capsys: Output) -> None:
    """The size has the name of the value of the first node that has it."""
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[12, 4] x, bool[12] c, float[4, 3] w) => (float[k, 3] y) {
      a = Compress<axis = 0>(x, c)  h = MatMul(a, w)  y = Relu(h) }"""
    path = tmp_path / "rows.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    kept = np.arange(12) % 3 == 0
    np.save(tmp_path / "c.npy", kept)
    given = ["--input", f"c=@{tmp_path / 'c.npy'}", "--compare", "onnxruntime", "--per-layer"]
    assert tcopt_run.main([str(path), *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    shapes = {
        line.split()[0]: line.split()[2] for line in lines if line.startswith(("Comp", "Relu"))
    }
    assert shapes == {"Compress:a": "4x4", "Relu:y": "4x3"}
