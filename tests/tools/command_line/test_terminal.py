"""Tools print only printable characters to a terminal, whatever a model's names are."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from rich.table import Table

from tcopt.tools import tcopt, tcopt_check, tcopt_compile, tcopt_run
from tcopt.tools.command_line import cli
from tcopt.tools.command_line.terminal import SafeStream, safe_output, shown
from tcopt.tools.command_line.text_tables import render

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\x08\u202e\u2028\x9b31m[red]x[/red]:smile:\x00"


def is_harmless(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hostile name in every position."""
    x, y, w = (f"{role}{HOSTILE}" for role in "xyw")
    node = helper.make_node("MatMul", [x, w], [y], name=f"n{HOSTILE}", doc_string=HOSTILE)
    infos = [helper.make_tensor_value_info(name, 1, [4, size]) for name, size in ((x, 16), (y, 24))]
    weight = numpy_helper.from_array(np.ones((16, 24), np.float32), w)
    graph = helper.make_graph([node], HOSTILE, infos[:1], infos[1:], [weight], doc_string=HOSTILE)
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
        producer_name=HOSTILE,
    )
    path = tmp_path_factory.mktemp("models") / "m\x1b[31m.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture(scope="module")
def refused(model: Path) -> Path:
    """A model with hostile names and an unknown operator."""
    made = onnx.load(model)
    made.graph.node[0].op_type = f"Nope{HOSTILE}"
    path = model.with_name("refused\x1b[31m.onnx")
    onnx.save(made, path)
    return path


RUNS = {
    "check": (tcopt_check.main, ["MODEL"], 0),
    "check, refused": (tcopt_check.main, ["REFUSED"], 1),
    "check, as JSON": (tcopt_check.main, ["MODEL", "--json"], 0),
    "compile": (tcopt_compile.main, ["MODEL", "--explain"], 0),
    "compile, to a level": (tcopt_compile.main, ["MODEL", "--compile-to", "te"], 0),
    "compile, refused": (tcopt_compile.main, ["REFUSED", "--traceback"], 1),
    "run": (tcopt_run.main, ["MODEL", "--compare", "reference", "--per-layer"], 0),
    "run, of a wrong input": (tcopt_run.main, ["MODEL", "--shape", f"{HOSTILE}:1"], 1),
    "tcopt": (tcopt.main, ["MODEL", "--print-debuginfo", "--print-after-all", "-p", "dce"], 0),
    "tcopt, generic": (tcopt.main, ["MODEL", "--print-op-generic"], 0),
    "tcopt, OpenCL": (tcopt.main, ["MODEL", "-p", "no\x1b[31m"], 1),
    "no file": (tcopt.main, ["no\x1b[31m\udc80.mlir"], 1),
}


@pytest.mark.parametrize("what", RUNS)
def test_tools_print_what_is_printable(what, model, refused, capsys):
    main, arguments, code = RUNS[what]
    places = {"MODEL": str(model), "REFUSED": str(refused)}
    assert main([places.get(a, a) for a in arguments]) == code
    told = capsys.readouterr()
    assert told.out + told.err and is_harmless(told.out) and is_harmless(told.err)


def test_usage_errors_are_printable(capsys):
    with pytest.raises(SystemExit):
        tcopt_run.main(["a", "b\x1b[31m"])
    assert is_harmless(capsys.readouterr().err)


def test_internal_errors_are_printable(capsys):
    def fails() -> int:
        raise RuntimeError(HOSTILE)

    assert cli.run_tool("tool", fails, show_traceback=True) == 1
    assert is_harmless(capsys.readouterr().err)


@given(st.text())
def test_texts_are_shown(text):
    assert is_harmless(shown(text))
    if is_harmless(text):
        assert shown(text) == text


def test_tables_take_no_markup():
    table = Table("name\x1b[1m", title="[bold]t[/bold]")
    table.add_row("[red]x[/red] :smile: [link=http://x]y[/link]")
    text = render(table)
    assert "[red]x[/red] :smile: [link=http://x]y[/link]" in text and "[bold]t[/bold]" in text


def test_what_the_encoding_lacks_is_escaped():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="")
    SafeStream(stream).write("é\x1b\n")
    stream.flush()
    assert stream.buffer.getvalue() == b"\\xe9\\x1b\n"


def test_output_is_as_it_was_afterwards():
    before = sys.stdout
    with safe_output():
        assert isinstance(sys.stdout, SafeStream)
        inner = sys.stdout
        with safe_output():
            assert sys.stdout is inner
    assert sys.stdout is before
