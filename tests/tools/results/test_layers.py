"""`tcopt-run --compare ... --per-layer`: the first layer whose result departs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from models.tool_models import dense_relu, save_dense_relu
from tcopt.tools import tcopt_run
from tcopt.tools.results.layers import compare_layers, layers_report, outputs_of, with_all_results

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
    assert outputs_of(source) == ["y", "h"]


def test_the_first_that_departs_is_named(model: Path) -> None:
    """Later layers inherit its error; what it is computed from is told to be near."""
    _, layers = with_all_results(str(model))
    h = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    theirs = {"h": h, "y": np.maximum(h, 0)}
    wrong = theirs["y"].copy()
    wrong[1, 3] += 0.5
    results = compare_layers(layers, {"h": h, "y": wrong}, theirs, rtol=1e-4, atol=0)
    assert [result.passed for result in results] == [True, False]
    text = layers_report(results, "onnxruntime", rtol=1e-4, atol=0)
    assert (
        "1 of 2 results depart from onnxruntime's, the first is that of Relu 'activation'" in text
    )
    assert "what it is computed from is within rtol 0" in text
    assert "max difference 0.5 at [1, 3]: 1.5 where 1 was expected" in text
    assert "the least rtol that passes for all is 0.5" in text
    other = compare_layers(layers, {"h": h[:1], "y": wrong}, theirs, rtol=1e-4, atol=0)
    text = layers_report(other, "onnxruntime", rtol=1e-4, atol=0)
    assert "'dense':\n  h has another shape or type" in text


@pytest.mark.parametrize("runtime", ["onnxruntime", "reference"])
def test_compare_by_layers(runtime: str, model: Path, capsys: Output) -> None:
    arguments = [str(model), "--compare", runtime, "--per-layer"]
    assert tcopt_run.main(arguments) == 0
    output = capsys.readouterr().out
    assert f"all 2 results are {runtime}'s" in output
    assert "activation  Relu      2x4" in output


def test_open_shapes(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "open.onnx"
    save_dense_relu(path, batch="batch")
    arguments = [str(path), "--compare", "reference", "--per-layer", "--shape", "x:3x8"]
    assert tcopt_run.main(arguments) == 0
    assert "dense       Gemm      3x4" in capsys.readouterr().out


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
