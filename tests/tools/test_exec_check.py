"""`--verify-each=exec` with a small interpreter in place of the compiler's own."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tcopt.tools import executors
from tcopt.tools.executors import Array
from tcopt.tools.tcopt import main

PASSES = Path(__file__).resolve().parents[2] / "lit_tests" / "tools" / "Inputs" / "wrong_passes.py"
CHAIN = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = arith.addf %x, %y : tensor<4xf32>
  %b = arith.mulf %a, %y : tensor<4xf32>
  %c = arith.addf %b, %x : tensor<4xf32>
  func.return %c : tensor<4xf32>
}"""
BUFFERS = """builtin.module attributes {graph.inputs = ["in"], graph.outputs = ["out"]} {
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) {
  %c = arith.constant 0 : index
  %v = memref.load %x[%c] : memref<4xf32>
  %w = arith.addf %v, %v : f32
  memref.store %w, %y[%c] : memref<4xf32>
  func.return
}}"""
ARITHMETIC = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
}


def interpret(module: ModuleOp, inputs: Sequence[Array], /) -> list[Array]:
    """Arithmetic, constants, loads and stores in one straight line."""
    (func,) = executors.functions(module).values()
    block = func.regions[0].blocks[0]
    values: dict[SSAValue, Array] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        operands = [values[operand] for operand in op.operands]
        if op.name == "func.return":
            return operands
        if op.name == "memref.store":
            operands[1][int(operands[2])] = operands[0]
        elif op.name == "memref.load":
            values[op.results[0]] = operands[0][int(operands[1])]
        elif op.name == "arith.constant":
            values[op.results[0]] = np.array(0)
        else:
            values[op.results[0]] = ARITHMETIC[op.name](*operands)
    return []


@pytest.fixture(autouse=True)
def small_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_executor", lambda module, func: interpret)


def run(monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    return main(["--load", str(PASSES), "--verify-each=exec", *arguments])


def test_right_passes_are_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The IR goes to stdout as ever, the account of the checks to stderr."""
    assert run(monkeypatch, CHAIN, "-p", "swap-operands,cse") == 0
    output = capsys.readouterr()
    assert output.out.startswith("builtin.module")
    assert "// exec: swap-operands: same results, max difference 0" in output.err
    assert "// exec: cse: same results" in output.err


@pytest.mark.parametrize(("n", "line"), [(0, 2), (1, 4)])
def test_wrong_pass_and_op_are_named(
    n: int, line: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has the pass, the result, the difference, and the op with its line."""
    assert run(monkeypatch, CHAIN, "-p", f"cse,add-to-subtract{{n={n}}},dce") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("tcopt: mismatch: pass 'add-to-subtract' changed result 0 of @main: ")
    assert "the first value to differ is that of 'arith.subf'" in error
    assert f"(at <stdin>:{line}:3)" in error


def test_tolerance_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference within rtol of the range passes."""
    assert run(monkeypatch, CHAIN, "-p", "add-to-subtract", "--rtol", "1e6") == 0


def test_given_inputs_are_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With y = 0 the first addition and subtraction agree; a name that is no input is refused."""
    np.save(tmp_path / "y.npy", np.zeros(4, np.float32))
    given = f"y=@{tmp_path}/y.npy"
    assert run(monkeypatch, CHAIN, "-p", "add-to-subtract", "--input", given) == 0
    assert run(monkeypatch, CHAIN, "-p", "cse", "--input", "z" + given[1:]) == 1
    assert "there is no input 'z'; inputs are x, y" in capsys.readouterr().err
    np.save(tmp_path / "y.npy", np.zeros(5, np.float32))
    assert run(monkeypatch, CHAIN, "-p", "cse", "--input", given) == 1
    assert "input 'y' is 5, the model wants y: 4 float32" in capsys.readouterr().err


def test_results_by_reference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the lower levels results are buffers; what is never written stays NaN."""
    assert run(monkeypatch, BUFFERS, "-p", "cse") == 0
    assert run(monkeypatch, BUFFERS, "-p", "add-to-subtract") == 1
    assert "changed result 0 of @main" in capsys.readouterr().err


def test_functions_are_checked_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without @main every function runs by itself."""
    text = CHAIN.replace("@main", "@f") + CHAIN.replace("@main", "@g")
    assert run(monkeypatch, text, "-p", "add-to-subtract{n=3}") == 1
    assert "changed result 0 of @g" in capsys.readouterr().err
