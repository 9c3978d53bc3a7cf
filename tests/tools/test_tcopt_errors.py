"""Every kind of invalid input to `tcopt` gives one message on stderr and exit code 1."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from tcopt.tools.tcopt import main

PASSES = Path(__file__).resolve().parents[2] / "lit_tests" / "tools" / "Inputs"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FUNCTION = """func.func @f(%a: i32) -> i32 {
  %b = arith.addi %a, %a : i32
  %c = arith.addi %b, %b : i32
  func.return %c : i32
}"""

CASES = {
    "missing file": (["no.mlir"], b"", "tcopt: bad-input: there is no file 'no.mlir'"),
    "missing model": (["no.onnx"], b"", "tcopt: bad-input: there is no file 'no.onnx'"),
    "folder": ([str(PASSES)], b"", "tcopt: bad-input: '.*Inputs' is a folder, not a model"),
    "not text": ([], b"\xff\xfe\x00", "tcopt: bad-input: '<stdin>' is not text; -f onnx reads"),
    "empty": ([], b" \n", "tcopt: bad-input: '<stdin>' is empty"),
    "cut off": (
        [],
        b"func.func @f() {\n",
        "tcopt: syntax: <stdin>:1:17: unexpected end of the text",
    ),
    "syntax": (
        [],
        b"func.func @f(%y: i32) {\n  %x = arith.addi %y : i32\n}",
        r"tcopt: syntax: <stdin>:2:22: .*\n    %x = arith.addi %y : i32\n {23}\^",
    ),
    "unknown op": (
        [],
        b'"graf.op"() : () -> ()',
        "tcopt: syntax: <stdin>:1:10: Operation graf.op is not registered",
    ),
    "unknown pass": (
        ["-p", "canonicalise"],
        b"",
        "tcopt: syntax: there is no pass 'canonicalise'; did you mean 'canonicalize'?",
    ),
    "pipeline syntax": (
        ["-p", "cse{"],
        b"",
        "tcopt: syntax: the pipeline 'cse{' does not parse: Expected argument name here; write",
    ),
    "unknown option": (
        ["-p", "cse{fast=1}"],
        b"",
        "tcopt: syntax: pass 'cse' has no option 'fast'; it takes no options",
    ),
    "option type": (
        ["--load", str(PASSES / "count_ops.py"), "-p", "count-ops{first=x}"],
        b"",
        "tcopt: syntax: pass 'count-ops': Incompatible types: .*; its options are first: int",
    ),
    "unknown target": (
        ["-t", "mlirr"],
        b"",
        "tcopt: syntax: there is no target 'mlirr'; did you mean 'mlir'?",
    ),
    "pass file missing": (
        ["--load", "no.py"],
        b"",
        "tcopt: bad-input: there is no file 'no.py' to load",
    ),
    "pass file broken": (
        ["--load", str(PASSES / "broken_pass.py")],
        b"",
        "tcopt: bad-input: cannot load '.*broken_pass.py': line 5: AttributeError: module 'math'",
    ),
    "pass file without the pass asked for": (
        ["--load", str(PASSES / "no_pass.py"), "-p", "not-there"],
        b"",
        "tcopt: syntax: there is no pass 'not-there'",
    ),
    "pass raises": (
        ["--load", str(PASSES / "bad_passes.py"), "-p", "raise-error"],
        FUNCTION.encode(),
        "tcopt: internal error in pass 'raise-error': ZeroDivisionError: .*; --traceback shows",
    ),
    "pass breaks the IR": (
        ["--load", str(PASSES / "bad_passes.py"), "-p", "cse,break-order,dce", "--verify-each"],
        FUNCTION.encode(),
        "tcopt: invalid-ir: after pass 'break-order': 'arith.addi': %b does not dominate this "
        r"use: it is defined by 'arith.addi' at <stdin>:2:3 \(at <stdin>:3:3\)",
    ),
    "not ONNX": (["-f", "onnx"], b"hello", "tcopt: bad-(model|input): "),
}


@pytest.mark.parametrize("name", CASES)
def test_one_message_and_exit_code_1(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, text, expected = CASES[name]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(arguments) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert re.match(expected, output.err), output.err
    assert "Traceback" not in output.err


def test_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown option is reported in one line, without the whole usage."""
    with pytest.raises(SystemExit) as stop:
        main(["--no-such-option"])
    assert stop.value.code == 1
    message = "tcopt: usage: unrecognized arguments: --no-such-option; see tcopt --help\n"
    assert capsys.readouterr().err == message


def test_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--traceback shows the origin of an internal error."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FUNCTION.encode())))
    assert main(["--load", str(PASSES / "bad_passes.py"), "-p", "raise-error", "--traceback"]) == 1
    assert "bad_passes.py" in capsys.readouterr().err


def test_help_lists_no_thousand_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """Help fits on one page; the passes are listed by a separate option."""
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) < 90
    assert main(["--list-passes"]) == 0
    ours, _, xdsl = capsys.readouterr().out.partition("\nof xDSL:\n")
    groups = [line for line in ours.splitlines() if line and not line.startswith(" ")]
    assert groups[:4] == ["passes/graph:", "passes/te:", "passes/loop:", "passes/kernel:"]
    assert "  fuse-ops                      Group operators; each group becomes one" in ours
    assert "  fuse-ops" not in xdsl
    assert "  convert-scf-to-cf" in xdsl.splitlines()


def test_help_of_a_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help-pass", "fuse-ops"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("fuse-ops (passes/graph)")
    assert "->" in text and "`max-ops`" in text
    assert main(["--help-pass", "dce"]) == 0
    assert "It takes no options." in capsys.readouterr().out
    assert main(["--help-pass", "fuse-opps"]) == 1
    assert "there is no pass 'fuse-opps'; did you mean 'fuse-ops'?" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["before", "after"])
def test_ir_is_printed_around_a_pass(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, passes = str(EXAMPLES / "dense.mlir"), ["-p", "canonicalize,fuse-ops,dce"]
    assert main([file, *passes, f"--print-{option}", "fuse-ops"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"// {option} 2: fuse-ops\n")
    assert ("graph.group" in captured.err) == (option == "after")
    assert main([file, *passes, f"--print-{option}", "fuse-opps"]) == 1
    wanted = f"--print-{option}: no pass 'fuse-opps' runs; did you mean 'fuse-ops'?"
    assert wanted in capsys.readouterr().err
    assert main([file, *passes, f"--print-{option}-all"]) == 0
    assert capsys.readouterr().err.count(f"// {option} ") == 3


def test_ir_is_printed_after_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    file, passes = str(EXAMPLES / "dense.mlir"), ["-p", "canonicalize,fuse-ops,dce"]
    assert main([file, *passes, "--print-after-change"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("//")]
    assert lines == [
        "// after 1: canonicalize: no change",
        "// after 2: fuse-ops",
        "// after 3: dce: no change",
    ]


EXPECTED = """func.func @f(%x: tensor<4xf32>, %y: tensor<4xi32>) -> tensor<4xf32> {
  {above}
  %0 = graph.matmul %x, %y : tensor<4xf32>{beside}
  func.return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("above", "beside", "said"),
    [
        ("// expected-error @+1 {{two dimensions}}", "", None),
        ("// expected-error @below {{two dimensions}}", "", None),
        ("", " // expected-error {{two dimensions}}", None),
        ("// expected-error {{two dimensions}}", "", "unexpected error"),
        ("// expected-error @+1 {{no such text}}", "", "'no such text' at line 3 was not produced"),
        ("// expected-error @unknown {{two dimensions}}", "", "unexpected error"),
        ("// expected-error @+1 type", "", "expected-error needs a text in {{...}}"),
        ("// expected-error @under {{two dimensions}}", "", "'@under' is not"),
    ],
)
def test_expected_errors(
    above: str,
    beside: str,
    said: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(EXPECTED.replace("{above}", above).replace("{beside}", beside))
    status = main([str(file), "--verify-diagnostics", "--split-input-file"])
    captured = capsys.readouterr()
    assert status == (said is not None), captured.err
    assert (said or "") in captured.err
    assert not captured.out
