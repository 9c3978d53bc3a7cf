"""For any arguments, a tool ends soon with one message and an exit code."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

SECONDS = 60

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
small (float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }"""

TEXT = "builtin.module {}\n"

FILES = [
    "none.onnx",
    "folder",
    "pipe",
    "/dev/zero",
    "/dev/null",
    "empty.onnx",
    "cut.onnx",
    "text.onnx",
    "random.onnx",
    "loop.onnx",
    "",
    "x" * 300,
    "a\0b",
    "none.tcm",
    "empty.tcm",
    "cut.tcm",
    "text.mlir",
    "binary.mlir",
    "\udce9.onnx",
]

OUTPUTS = [
    "folder.npz",
    "no/such/folder/a",
    "/dev/full",
    "pipe",
    "",
    "a\0b",
    "x" * 300,
    "loop.onnx/a",
]

OPTIONS = [
    ["--target", "none"],
    ["--target", "cpu:none"],
    ["--target", ""],
    ["--accuracy", "none"],
    ["--precision", "none"],
    ["--limit", "x"],
    ["--limit", "nodes=-1"],
    ["--limit", "nodes=" + "9" * 50],
    ["--shape", "x"],
    ["--shape", "x:"],
    ["--shape", "x:-1x4"],
    ["--shape", "x:99999999999999999999x4"],
    ["--shape", "y:2x4"],
    ["--shape", "x:2x4x" + "1x" * 80 + "1"],
    ["--dim", "n"],
    ["--dim", "n=0x4"],
    ["--dim", "n=-4"],
    ["--dim", "n=4"],
    ["--dim", "n=4..2"],
    ["--input", "x"],
    ["--input", "x=@none.npy"],
    ["--input", "x=@folder"],
    ["--input", "x=@pipe"],
    ["--input", "x=@/dev/zero"],
    ["--input", "x=@text.onnx"],
    ["--input", "x=@object.npy"],
    ["--input", "x=@wrong.npy"],
    ["--input", "x=@cut.npy"],
    ["--input", "x=@huge.npy"],
    ["--input", "x=@bomb.npz"],
    ["--input", "=@good.npy"],
    ["--input", "@good.npy"],
    ["--seed", "-1"],
    ["--seed", "x"],
    ["--seed", "9" * 60],
    ["--threads", "0"],
    ["--threads", "-3"],
    ["--threads", "99999999999999"],
    ["--repeat", "0"],
    ["--rounds", "-1"],
    ["--rtol", "x"],
    ["--rtol", "nan"],
    ["--rtol", "-1"],
    ["--no-such-option"],
    ["-p", "none"],
    ["-p", "fold-constants{"],
    ["-p", "fold-constants{x=1}"],
    ["-t", "none"],
    ["--compile-to", "none"],
]

TOOLS: dict[str, tuple[str, list[str]]] = {
    "tcopt": ("tcopt", ["-o"]),
    "tcopt-compile": ("tcopt_compile", ["-o"]),
    "tcopt-run": ("tcopt_run", ["--output"]),
    "tcopt-check": ("tcopt_check", []),
    "tcopt-bench": ("tcopt_bench", ["--json", "--trace"]),
}
FEW = {"tcopt-bench": ["--rounds", "1", "--peers"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    data = onnx.parser.parse_model(MODEL).SerializeToString()
    Path("small.onnx").write_bytes(data)
    Path("cut.onnx").write_bytes(data[: len(data) // 2])
    Path("empty.onnx").touch()
    Path("empty.tcm").touch()
    Path("cut.tcm").write_bytes(b"tcopt-model\n\x04\0\0\0")
    Path("text.onnx").write_text(TEXT)
    Path("text.mlir").write_text(TEXT[:-3])
    Path("binary.mlir").write_bytes(bytes(range(256)))
    Path("random.onnx").write_bytes(np.random.default_rng(0).bytes(4096))
    Path("loop.onnx").symlink_to("loop.onnx")
    Path("folder").mkdir()
    Path("folder.npz").mkdir()
    os.mkfifo("pipe")
    np.save("good.npy", np.zeros((2, 4), np.float32))
    np.save("wrong.npy", np.zeros((2, 5), np.float64))
    np.save("object.npy", np.array([{}], object), allow_pickle=True)
    good = Path("good.npy").read_bytes()
    Path("cut.npy").write_bytes(good[:-8])
    # A header that requests far more than the file, or memory, has.
    Path("huge.npy").write_bytes(good.replace(b"(2, 4), ", b"(2**50,4),"[:8]))
    np.savez_compressed("bomb.npz", x=np.zeros(10**6, np.float64))
    return tmp_path


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError("a tool took too long")

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def code_of(tool: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Run a tool; its error must be one message without a stack trace."""
    main = importlib.import_module(f"tcopt.tools.{TOOLS[tool][0]}").main
    signal.alarm(SECONDS)
    try:
        code = main([*arguments])
    except SystemExit as end:
        code = end.code
    signal.alarm(0)
    said = capsys.readouterr()
    told = said.err + said.out
    assert code in (0, 1), (tool, arguments, told)
    assert "Traceback" not in told and "internal error" not in told, (tool, arguments, told)
    assert "took too long" not in told, (tool, arguments)
    if code == 1 and tool != "tcopt-check":
        assert any(line.startswith(f"{tool}: ") for line in said.err.splitlines()), (tool, told)
    return code


@pytest.mark.parametrize("tool", TOOLS)
def test_files_that_are_no_models(tool, folder, capsys):
    for file in FILES:
        assert code_of(tool, [file, *FEW.get(tool, [])], capsys) == 1, file


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("tool", [tool for tool, (_, options) in TOOLS.items() if options])
def test_places_that_cannot_be_written(tool, folder, capsys):
    before = sorted(os.listdir(folder))
    for option in TOOLS[tool][1]:
        for output in OUTPUTS:
            arguments = ["small.onnx", option, output, *FEW.get(tool, [])]
            # Without a name nothing is written.
            assert code_of(tool, arguments, capsys) == (1 if output else 0) or not output, arguments
    assert sorted(os.listdir(folder)) in (before, sorted([*before, "small.tcm"]))


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("tool", TOOLS)
def test_odd_options(tool, folder, capsys):
    for options in OPTIONS:
        code_of(tool, ["small.onnx", *FEW.get(tool, []), *options], capsys)


def test_devices_stay_devices(folder, capsys):
    for tool, (_, options) in TOOLS.items():
        for option in options:
            arguments = ["small.onnx", option, "/dev/null", *FEW.get(tool, [])]
            assert code_of(tool, arguments, capsys) == 0, arguments
    assert not Path("/dev/null").is_file() and not Path("/dev/null.safetensors").exists()
