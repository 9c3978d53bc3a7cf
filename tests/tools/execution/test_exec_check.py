"""`--verify-each=exec`: what it compares and reports, and what it requires."""

from __future__ import annotations

import inspect
import io
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tcopt.passes.loop.blocks import guards
from tcopt.passes.loop.buffers import compact_buffers
from tcopt.tools.tcopt import main

PASSES = Path(__file__).resolve().parents[3] / "lit_tests" / "tools" / "Inputs" / "wrong_passes.py"
CHAIN = """te.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c = te.compute "c" [%i = 4] : tensor<4xf32> {
    %u = te.read %x[%i] : tensor<4xf32>
    %v = te.read %y[%i] : tensor<4xf32>
    %a = arith.addf %u, %v : f32
    %m = arith.mulf %a, %v : f32
    te.yield %m : f32
  }
  %d = te.compute "d" [%i = 4] : tensor<4xf32> {
    %u = te.read %c[%i] : tensor<4xf32>
    %v = te.read %x[%i] : tensor<4xf32>
    %a = arith.addf %u, %v : f32
    te.yield %a : f32
  }
  te.return %d : tensor<4xf32>
}"""
TWO_NAMES = """loop.func @f(%a: memref<4xf32>, %a_1: memref<8xf32>, %o: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "b" (%v: spatial 4 = %i) {
      %0 = loop.load %a[%v] : memref<4xf32>
      %1 = loop.load %a_1[%v + 4] : memref<8xf32>
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %o[%v] : memref<4xf32>
    }
  }
}"""
GUARDED = """loop.func @f(%x: memref<7xf32>, %y: memref<7xf32>) {
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 4 {
      loop.block "b" (%v: spatial 7 = %i * 4 + %j) {
        %0 = loop.load %x[%v] : memref<7xf32>
        loop.store %0, %y[%v] : memref<7xf32>
      }
    }
  }
}"""
BARRIER = """loop.func @f(%y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %0 = arith.constant 1.0 : f32
    loop.store %0, %y[%i] : memref<4xf32>
  }
}"""


def run(monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    return main(["--load", str(PASSES), "--verify-each=exec", *arguments])


def test_right_passes_are_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The IR goes to stdout as usual, the report to stderr."""
    assert run(monkeypatch, CHAIN, "-p", "swap-operands,dce") == 0
    output = capsys.readouterr()
    assert output.out.startswith("builtin.module")
    assert "// exec: swap-operands: same values, 3 compared" in output.err
    assert "// exec: dce: same program" in output.err


@pytest.mark.parametrize(("n", "stage", "line"), [(0, "c", 2), (1, "d", 9)])
def test_wrong_pass_and_stage_are_named(
    n: int,
    stage: str,
    line: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The message has the pass, the stage and its line, and the difference."""
    assert run(monkeypatch, CHAIN, "-p", f"swap-operands,add-to-subtract{{n={n}}},dce") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(
        f"tcopt: mismatch: pass 'add-to-subtract' changed stage \"{stage}\" of @main: "
    )
    assert f"(at <stdin>:{line}:3)" in error


def test_a_masked_error_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A differing stage is reported even if the result hides it."""
    hidden = CHAIN.replace("%a = arith.addf %u, %v : f32\n    te.yield %a : f32",
                           "te.yield %v : f32")  # fmt: skip
    assert run(monkeypatch, hidden, "-p", "add-to-subtract") == 1
    assert 'changed stage "c" of @main' in capsys.readouterr().err


def test_a_small_tensor_is_looked_at_closely(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The tolerance is relative to the tensor's own magnitude."""
    np.save(tmp_path / "x.npy", np.full(4, 1e-9, np.float32))
    np.save(tmp_path / "y.npy", np.full(4, 1e-12, np.float32))
    given = [f"--input={n}=@{tmp_path}/{n}.npy" for n in "xy"]
    assert run(monkeypatch, CHAIN, "-p", "add-to-subtract", *given) == 1
    assert 'changed stage "c"' in capsys.readouterr().err


def test_tolerance_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference within rtol of the magnitude passes."""
    assert run(monkeypatch, CHAIN, "-p", "add-to-subtract", "--rtol", "1e6") == 0


def test_given_inputs_are_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With y = 0 addition and subtraction agree; a name that is not an input is rejected."""
    np.save(tmp_path / "y.npy", np.zeros(4, np.float32))
    given = f"y=@{tmp_path}/y.npy"
    assert run(monkeypatch, CHAIN, "-p", "add-to-subtract", "--input", given) == 0
    assert run(monkeypatch, CHAIN, "-p", "dce", "--input", "z" + given[1:]) == 1
    assert "there is no input 'z'; inputs are x, y" in capsys.readouterr().err
    np.save(tmp_path / "y.npy", np.zeros(5, np.float32))
    assert run(monkeypatch, CHAIN, "-p", "dce", "--input", given) == 1
    assert "input 'y' is 5, the model wants \"y\" float32[4]" in capsys.readouterr().err


SIZED = (
    CHAIN.replace("tensor<4xf32>", "tensor<9xf32, #size.dims<n[1:9]>>")
    .replace("[%i = 4]", "[%i = n[1:9]]")
    .replace("#size.dims<n[1:9]>>)", "#size.dims<n[1:9]>>, %n: index)", 1)
    .replace(" {", " attributes {size.symbols = #size.dims<n[1:9]>} {", 1)
)


def test_modules_with_sizes_run_at_several_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The message says at which; given inputs determine their sizes."""
    assert run(monkeypatch, SIZED, "-p", "swap-operands,te-inline") == 0
    assert "// exec: swap-operands: same values" in capsys.readouterr().err
    assert run(monkeypatch, SIZED, "-p", "add-to-subtract") == 1
    assert ", at n = 9" in capsys.readouterr().err.splitlines()[-1]
    np.save(tmp_path / "y.npy", np.ones(5, np.float32))
    given = f"--input=y=@{tmp_path}/y.npy"
    assert run(monkeypatch, SIZED, "-p", "add-to-subtract", given) == 1
    assert ", at n = 5" in capsys.readouterr().err.splitlines()[-1]


def test_kernels_with_sizes_run_at_several_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kernels take the sizes as arguments, also those that a host function calls."""
    passes = "lower-te-to-loop,lower-blocks,vectorize,lower-loop-to-kernel"
    assert run(monkeypatch, SIZED, "-p", passes) == 0
    assert "// exec: lower-loop-to-kernel: same values" in capsys.readouterr().err
    vector = "tensor<9xf32, #size.dims<2 * m[1:4] + 1>>"
    host = f"""
func.func @main(%x: {vector}, %y: {vector}) -> {vector}
    attributes {{size.symbols = #size.dims<m[1:4]>}} {{
  %0 = te.call @f(%x, %y) sizes <2 * m[1:4] + 1> : ({vector}, {vector}) -> {vector}
  %1 = te.call @f(%0, %y) sizes <2 * m[1:4] + 1> : ({vector}, {vector}) -> {vector}
  func.return %1 : {vector}
}}"""
    kernel = SIZED.replace("@main", "@f").replace("n[1:9]", "s0[1:9]")
    assert run(monkeypatch, kernel + host, "-p", f"{passes},plan-memory") == 0
    assert "// exec: plan-memory: same values" in capsys.readouterr().err


def test_functions_are_checked_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without @main every function runs separately."""
    text = CHAIN.replace("@main", "@f") + "\n" + CHAIN.replace("@main", "@g")
    assert run(monkeypatch, text, "-p", "add-to-subtract{n=3}") == 1
    assert 'changed stage "d" of @g' in capsys.readouterr().err


def test_inputs_go_by_position(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Values whose names differ only by a number are distinguished, also in the report."""
    passes = "compact-buffers,lower-blocks,lower-loop-to-kernel"
    assert run(monkeypatch, TWO_NAMES, "-p", passes) == 0
    np.save(tmp_path / "b.npy", np.zeros(8, np.float32))
    given = f"a_1=@{tmp_path}/b.npy"
    assert run(monkeypatch, TWO_NAMES, "-p", passes, "--input", given) == 0
    assert "lower-loop-to-kernel: same values" in capsys.readouterr().err


def test_a_write_outside_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Machine code that loses its condition ends with a message, not with the process."""
    passes = "lower-blocks,lower-loop-to-kernel,drop-condition,cse"
    assert run(monkeypatch, GUARDED, "-p", passes) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "after pass 'drop-condition' the module fails to run: in @f: " in error
    assert "after the end of %x" in error


def test_what_nothing_runs_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code that no interpreter runs is an error unless it is allowed."""
    assert run(monkeypatch, BARRIER, "-p", "add-barrier") == 1
    error = capsys.readouterr().err
    assert "tcopt: unsupported: what add-barrier made was not run, so it is not checked" in error
    assert run(monkeypatch, BARRIER, "-p", "add-barrier", "--allow-unchecked") == 0
    assert "not checked: add-barrier" in capsys.readouterr().err


def test_printing_after_a_pass_that_does_not_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, CHAIN, "-p", "dce,cse", "--print-after", "dec") == 1
    error = capsys.readouterr().err
    assert "tcopt: bad-input: --print-after: no pass 'dec' runs; did you mean 'dce'?" in error


SHIFTED = """loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  %t = loop.alloc global : memref<8xf32>
  loop.for %i = 0 to 8 {
    loop.block "w" (%v: spatial 8 = %i) {
      %0 = loop.load %x[%v] : memref<8xf32>
      loop.store %0, %t[%v] : memref<8xf32>
    }
    loop.block "r" (%v: spatial 8 = %i) {
      %0 = loop.load %t[%v - 1] else 0.0 : memref<8xf32>
      loop.store %0, %y[%v] : memref<8xf32>
    }
  }
}"""
TWO_GUARDS = """loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 2 {
      loop.guard ([%i] in 2) {
        %0 = loop.load %x[%i * 2 + %j] : memref<8xf32>
        loop.store %0, %y[%i * 2 + %j] : memref<8xf32>
      }
      loop.guard ([%i] in 3) {
        %0 = loop.load %x[%i * 2 + %j] : memref<8xf32>
        loop.store %0, %z[%i * 2 + %j] : memref<8xf32>
      }
    }
  }
}"""


@pytest.mark.parametrize(
    ("text", "name", "module", "function", "right", "wrong"),
    [
        (
            SHIFTED,
            "compact-buffers",
            compact_buffers,
            "_is_private",
            "return all(",
            "return True or all(",
        ),
        (TWO_GUARDS, "lower-blocks", guards, "_invariant_conditions", " if c in present]", "]"),
    ],
)
def test_faults_in_the_source_are_found(
    text: str,
    name: str,
    module: ModuleType,
    function: str,
    right: str,
    wrong: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The correct pass is accepted, and named if one of its lines is wrong."""
    assert run(monkeypatch, text, "-p", name) == 0
    source = inspect.getsource(getattr(module, function))
    assert right in source
    changed = source.replace(right, wrong)
    place = dict(vars(module))
    exec(compile(changed, module.__file__ or "", "exec"), place)
    monkeypatch.setattr(module, function, place[function])
    assert run(monkeypatch, text, "-p", name) == 1
    assert f"pass '{name}'" in capsys.readouterr().err.splitlines()[-1]
