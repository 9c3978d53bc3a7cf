"""Every kind of bad input to `tcopt` gives one message on stderr and exit code 1."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from tcopt.tools.tcopt import main

PASSES = Path(__file__).resolve().parents[2] / "lit_tests" / "tools" / "Inputs"
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
    """An option that does not exist is one line, not the whole usage."""
    with pytest.raises(SystemExit) as stop:
        main(["--no-such-option"])
    assert stop.value.code == 1
    message = "tcopt: usage: unrecognized arguments: --no-such-option; see tcopt --help\n"
    assert capsys.readouterr().err == message


def test_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--traceback shows where an internal error came from."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FUNCTION.encode())))
    assert main(["--load", str(PASSES / "bad_passes.py"), "-p", "raise-error", "--traceback"]) == 1
    assert "bad_passes.py" in capsys.readouterr().err


def test_help_lists_no_thousand_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """Help stays one page; the passes have an option of their own."""
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) < 80
    assert main(["--list-passes"]) == 0
    assert "canonicalize" in capsys.readouterr().out.splitlines()
