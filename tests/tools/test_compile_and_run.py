"""`tcopt-compile` and `tcopt-run`: behaviour, and messages for invalid input."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from models.tool_models import dense_relu, save_dense_relu
from tcopt.tools import tcopt, tcopt_compile, tcopt_run

Output = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dense.onnx"
    save_dense_relu(path)
    return path


@pytest.fixture
def x(tmp_path: Path) -> str:
    """Return an `--input` argument with a value for x."""
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    return f"x=@{tmp_path}/x.npy"


def test_compile_then_run(model: Path, x: str, tmp_path: Path, capsys: Output) -> None:
    """The saved model agrees with numpy; the results go to a file."""
    compiled = tmp_path / "dense.tcm"
    assert tcopt_compile.main([str(model), "-o", str(compiled)]) == 0
    assert re.match(r".*dense.tcm: \d+\.\d MB for cpu in ", capsys.readouterr().out)
    results = tmp_path / "out.npz"
    assert tcopt_run.main([str(compiled), "--input", x, "--output", str(results)]) == 0
    output = capsys.readouterr().out
    assert "y: 2x4 float32" in output
    assert "ms median" in output
    expected = dense_relu(np.load(tmp_path / "x.npy"))
    np.testing.assert_allclose(np.load(results)["y"], expected, rtol=1e-5, atol=1e-5)


def test_run_judges_accuracy(model: Path, x: str, tmp_path: Path, capsys: Output) -> None:
    """A correct expectation passes; a wrong one exits with 1 and reports where and by how much."""
    expected = dense_relu(np.load(tmp_path / "x.npy"))
    np.save(tmp_path / "y.npy", expected)
    arguments = [str(model), "--input", x, "--expected-output", f"y=@{tmp_path}/y.npy"]
    assert tcopt_run.main(arguments) == 0
    assert "y (2x4): ok" in capsys.readouterr().out
    expected[1, 2] += 1
    np.save(tmp_path / "y.npy", expected)
    assert tcopt_run.main(arguments) == 1
    output = capsys.readouterr().out
    assert "y (2x4): DIFFERS" in output
    assert "max difference 1 at [1, 2]" in output
    assert tcopt_run.main([*arguments, "--atol", "1.1"]) == 0


def test_run_against_onnxruntime(model: Path, capsys: Output) -> None:
    assert tcopt_run.main([str(model), "--compare", "onnxruntime", "--repeat", "2"]) == 0
    output = capsys.readouterr().out
    assert "onnxruntime: " in output
    assert "y (2x4): ok" in output


def test_open_shapes(tmp_path: Path, x: str, capsys: Output) -> None:
    """A model with an open batch runs on the given shape, set by value or by option."""
    model = tmp_path / "open.onnx"
    save_dense_relu(model, batch="batch")
    assert tcopt_run.main([str(model), "--input", x]) == 0
    assert "y: 2x4" in capsys.readouterr().out
    assert tcopt_run.main([str(model), "--shape", "x:3x8"]) == 0
    assert "y: 3x4" in capsys.readouterr().out
    assert tcopt_run.main([str(model), "--dim", "batch=5"]) == 0
    shown = capsys.readouterr().out
    assert "compiled for batch = 5" in shown and "y: 5x4" in shown
    assert tcopt_run.main([str(model)]) == 1
    message = 'input "x" float32[batch, 8] is open; give it a value with --input, or fix it with'
    assert f"{message} --dim batch=8" in capsys.readouterr().err
    assert tcopt_run.main([str(model), "--dim", "bach=5"]) == 1
    assert "no dimension 'bach'; open dimensions are batch" in capsys.readouterr().err
    assert tcopt_run.main([str(model), "--dim", "batch"]) == 1
    assert "'batch' is not a dimension; write 'batch=2'" in capsys.readouterr().err


def test_printed_pipeline_makes_the_same_code(model: Path, tmp_path: Path, capsys: Output) -> None:
    """Import, print, and pass the text and the printed pipeline to `tcopt`: the same kernels."""
    graph = tmp_path / "elsewhere" / "graph.mlir"
    graph.parent.mkdir()
    assert tcopt_compile.main([str(model), "--compile-to", "import", "-o", str(graph)]) == 0
    assert (graph.parent / "graph.safetensors").is_file()
    assert tcopt_compile.main(["--print-pipeline"]) == 0
    pipeline = capsys.readouterr().out.strip()
    assert tcopt_compile.main([str(model), "--compile-to", "code"]) == 0
    direct = capsys.readouterr().out
    assert tcopt.main([str(graph), "-p", pipeline, "-t", "llvm"]) == 0
    assert capsys.readouterr().out == direct


def test_precision_is_an_option(capsys: Output) -> None:
    assert tcopt_compile.main(["--print-pipeline", "--precision", "bf16"]) == 0
    assert "lower-precision{to=bf16}" in capsys.readouterr().out


@pytest.mark.parametrize("phase", ["import", "graph", "te", "loop", "schedule", "kernel"])
def test_stopping_at_a_level(phase: str, model: Path, tmp_path: Path, capsys: Output) -> None:
    """Each level's text round-trips and verifies."""
    text = tmp_path / f"{phase}.mlir"
    assert tcopt_compile.main([str(model), "--compile-to", phase, "-o", str(text)]) == 0
    again = tmp_path / f"{phase}.again.mlir"
    assert tcopt.main([str(text), "-o", str(again)]) == 0
    assert again.read_text() == text.read_text()


def test_a_level_of_a_model_in_stages_is_that_of_its_first(tmp_path: Path, capsys: Output) -> None:
    """As in a compile, nodes whose counts depend on data are left to a later stage."""
    path = tmp_path / "part.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]>
    part (float[3] x) => (float[n] y) {
        a = Abs(x)
        m = ReduceMax(a)
        n = Cast<to = 7>(m)
        p = Tile(x, n)
        y = Neg(p)
    }"""
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert tcopt_compile.main([str(path), "--compile-to", "import"]) == 0
    assert "graph.abs" in (printed := capsys.readouterr().out) and "graph.neg" not in printed


def test_every_pass_keeps_the_results(model: Path, capsys: Output) -> None:
    """The whole pipeline under --verify-each=exec, from the ONNX file to kernels."""
    assert tcopt_compile.main(["--print-pipeline", "--compile-to", "kernel"]) == 0
    pipeline = capsys.readouterr().out.strip()
    assert tcopt.main([str(model), "-p", pipeline, "--verify-each=exec"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert "same values" in lines[-1]
    assert not [line for line in lines if "not run" in line]


def test_dumps_can_be_replayed(model: Path, tmp_path: Path, capsys: Output) -> None:
    """A dump names weights stored next to it, so any pass can be rerun from there."""
    folder = tmp_path / "dump"
    assert tcopt.main([str(model), "-p", "fold-constants,fuse-ops", "--dump-ir", str(folder)]) == 0
    final = capsys.readouterr().out
    assert (folder / "weights.safetensors").is_file()
    replay = [str(folder / "01-fold-constants.mlir"), "-p", "fuse-ops", "--verify-each=exec"]
    assert tcopt.main(replay) == 0
    body = capsys.readouterr().out.split("func.func", 1)[1]
    assert body == final.split("func.func", 1)[1]


BAD_COMPILES = {
    "no model": ([], "bad-input: no model given"),
    "missing": (["no.onnx"], "bad-input: there is no file 'no.onnx'"),
    "not ONNX": (["text.onnx"], "bad-(input|model): "),
    "truncated": (["cut.onnx"], "bad-(input|model): "),
    "unknown op": (["odd.onnx"], "unsupported: .*NoSuchOp.*activation"),
    "phase": (["dense.onnx", "--compile-to", "tee"], "bad-input: there is no phase 'tee'; phases"),
    "target": (["dense.onnx", "--target", "cpv"], "unsupported: there is no target 'cpv'"),
    "shape": (["dense.onnx", "--shape", "x:2,8"], "bad-input: 'x:2,8' is not a shape; write"),
    "other shape": (["dense.onnx", "--shape", "x:3x8"], "bad-input: "),
    "shape of what": (["dense.onnx", "--shape", "z:3x8"], "bad-input: .*z"),
    "output": (["dense.onnx", "-o", "no/such/folder.tcm"], "bad-input: .*no/such/folder.tcm"),
}


@pytest.mark.parametrize("name", BAD_COMPILES)
def test_bad_input_to_compile(
    name: str, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    arguments, message = BAD_COMPILES[name]
    monkeypatch.chdir(model.parent)
    Path("text.onnx").write_text("hello")
    Path("cut.onnx").write_bytes(model.read_bytes()[:-40])
    save_dense_relu(Path("odd.onnx"), op="NoSuchOp")
    assert tcopt_compile.main(arguments) == 1
    expect_message("tcopt-compile", message, capsys)


BAD_RUNS = {
    "missing": (["no.tcm"], "bad-input: there is no file 'no.tcm'"),
    "not compiled": (["text.tcm"], "bad-input: "),
    "unknown input": (["dense.onnx", "--input", "z=@x.npy"], "bad-input: there is no input 'z'"),
    "input form": (["dense.onnx", "--input", "x.npy"], "bad-input: 'x.npy' is not 'name=@"),
    "input file": (["dense.onnx", "--input", "x=@no.npy"], "bad-input: there is no file 'no.npy'"),
    "not numpy": (["dense.onnx", "--input", "x=@text.npy"], "bad-input: 'text.npy' is not a numpy"),
    "input shape": (["dense.onnx", "--input", "x=@wide.npy"], "bad-input: input 'x' is 2x9"),
    "input type": (["dense.onnx", "--input", "x=@double.npy"], "bad-input: input 'x' is float64"),
    "output": (["dense.onnx", "--expected-output", "z=@x.npy"], "bad-input: there is no output"),
    "output shape": (
        ["dense.onnx", "--expected-output", "y=@x.npy"],
        r"bad-input: output 'y' has shape \(2, 4\) where \(2, 8\) was expected",
    ),
    "repeat": (["dense.onnx", "--repeat", "0"], "bad-input: --repeat 0"),
    "threads": (["dense.onnx", "--threads", "0"], "bad-input: --threads 0"),
    "compare": (["text.tcm", "--compare", "onnxruntime"], "bad-input: onnxruntime cannot run"),
}


@pytest.mark.parametrize("name", BAD_RUNS)
def test_bad_input_to_run(
    name: str, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    arguments, message = BAD_RUNS[name]
    monkeypatch.chdir(model.parent)
    Path("text.tcm").write_text("hello")
    Path("text.npy").write_text("hello")
    np.save("x.npy", np.zeros((2, 8), np.float32))
    np.save("wide.npy", np.zeros((2, 9), np.float32))
    np.save("double.npy", np.zeros((2, 8)))
    assert tcopt_run.main(arguments) == 1
    expect_message("tcopt-run", message, capsys)


def expect_message(prog: str, message: str, capsys: Output) -> None:
    error = capsys.readouterr().err
    assert re.match(f"{prog}: {message}", error), error
    assert "Traceback" not in error
    assert "internal error" not in error
