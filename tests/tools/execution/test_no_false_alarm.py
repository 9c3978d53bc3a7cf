"""`--verify-each=exec` reports no error for correct passes, and names the incorrect ones."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import onnx.parser
import pytest
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.parser import Parser

from faults.edits import number
from faults.planted import Fault
from faults.runs import Faulty
from faults.source_programs import ROWS
from tcopt.backends.llvm.ops import arith as emit_arith
from tcopt.frontends.onnx import import_model
from tcopt.schedules.primitives import split as split_primitive
from tcopt.support.errors import MismatchError
from tcopt.support.pipelines.running import new_context, run_passes
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.tools.execution.exec_check import ExecCheck
from tcopt.tools.execution.work_estimates import MACHINE_CODE, time_limit
from tcopt.tools.tcopt import main

PASSES = Path(__file__).resolve().parents[3] / "lit_tests" / "tools" / "Inputs" / "wrong_passes.py"
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
SPLIT = (
    HEAD
    + """net (float[2, 4] x) => (float[2, 2] y) {
  q, k = Split<axis = 1, num_outputs = 2>(x)
  p = Softmax(k)  r = MatMul(p, q)  y = Relu(r) }"""
)
THREE = (
    HEAD
    + """net (float[2, 6] x) => (float[2, 2] y) {
  q, k, v = Split<axis = 1, num_outputs = 3>(x)
  s = MatMul(q, k)  p = Softmax(s)  r = MatMul(p, v)  y = Relu(r) }"""
)
RECURRENT = (
    HEAD
    + """net (float[3, 1, 2] x, float[{d}, {g}, 2] w, float[{d}, {g}, 4] r) =>
  (float[3, {d}, 1, 4] y, float[{d}, 1, 4] h) {{
  y, h = {op} <hidden_size = 4, direction = "{direction}"> (x, w, r) }}"""
)
BOUNDS = """  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
"""
NEGATE = f"""func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) {{
{BOUNDS}  scf.for %i = %c0 to %c8 step %c1 {{
    %0 = memref.load %x[%i] : memref<8xf32>
    %1 = arith.negf %0 : f32
    memref.store %1, %y[%i] : memref<8xf32>
  }}
  return
}}"""
ADD = f"""func.func @add(%x: memref<8xf32>, %y: memref<8xf32>) {{
{BOUNDS}  scf.for %i = %c0 to %c8 step %c1 {{
    %0 = memref.load %x[%i] : memref<8xf32>
    %1 = memref.load %y[%i] : memref<8xf32>
    %2 = arith.addf %0, %1 : f32
    memref.store %2, %y[%i] : memref<8xf32>
  }}
  return
}}"""
CALLS = f"""{ADD}
func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) {{
{BOUNDS}  %t = memref.alloca() : memref<8xf32>
  scf.for %i = %c0 to %c8 step %c1 {{
    %0 = memref.load %x[%i] : memref<8xf32>
    memref.store %0, %t[%i] : memref<8xf32>
  }}
  func.call @add(%x, %t) : (memref<8xf32>, memref<8xf32>) -> ()
  func.call @add(%t, %y) : (memref<8xf32>, memref<8xf32>) -> ()
  return
}}"""
PICK = """func.func @pick(%x: memref<8xf32>, %i: index) -> f32 {
  %0 = memref.load %x[%i] : memref<8xf32>
  %1 = arith.addf %0, %0 : f32
  func.return %1 : f32
}"""
UPDATE = """loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.block "b" (%v: spatial 8 = %i) {
      %0 = loop.load %x[%v] : memref<8xf32>
      %1 = loop.load %y[%v] : memref<8xf32>
      %2 = arith.subf %0, %1 : f32
      loop.store %2, %y[%v] : memref<8xf32>
    }
  }
}
"""
SCHEDULED = (
    UPDATE
    + """sched.sequence @f_schedule for @f {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  %j, %k = sched.split %i by [?, 4]
  sched.parallel %j
  sched.unroll %k
}
"""
)
CLAMPED = """te.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
  %c = te.compute "c" [%i = 64] : tensor<64xf32> {
    %u = te.read %x[%i] : tensor<64xf32>
    %b = arith.constant 40.0 : f32
    %m = arith.minimumf %u, %b : f32
    te.yield %m : f32
  }
  te.return %c : tensor<64xf32>
}"""
STEP = "  %c2 = arith.constant 2 : index\n  %z = arith.divui %c1, %c2 : index\n"
ENDLESS = NEGATE.replace("step %c1", "step %z").replace("  scf.for", f"{STEP}  scf.for")


def run(monkeypatch: pytest.MonkeyPatch, text: str, passes: str, *arguments: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    return main(["--load", str(PASSES), "--verify-each=exec", "-p", passes, *arguments])


@pytest.mark.parametrize("model", [SPLIT, THREE])
def test_values_of_one_location_may_be_reordered(model: str) -> None:
    """The slices of a `Split` share a location; `fuse-ops` reorders them."""
    module = import_model(onnx.parser.parse_model(model))
    run_passes(new_context(), module, parse_pipeline("fuse-ops,lower-graph-to-te"), [ExecCheck()])


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_iterations_of_a_scan_are_separate_values(op: str, gates: int, direction: str) -> None:
    """Each iteration of a recurrent layer is compared to itself, not to the last one."""
    count = 2 if direction == "bidirectional" else 1
    text = RECURRENT.format(op=op, d=count, g=4 * gates, direction=direction)
    module = import_model(onnx.parser.parse_model(text))
    passes = parse_pipeline("fold-constants,fuse-ops,lower-graph-to-te,te-inline")
    run_passes(new_context(), module, passes, [ExecCheck()])


@pytest.mark.parametrize("which", [0, 1])
def test_a_wrong_value_of_a_shared_location_is_found(which: int) -> None:
    """A slice that starts one element off is reported, whichever it is."""
    edit = number("graph.slice", "starts", lambda n: n - 1 if n else n + 1, 1, which)
    (fuse,) = parse_pipeline("fuse-ops")
    module = import_model(onnx.parser.parse_model(SPLIT))
    with pytest.raises(MismatchError, match=r"pass 'fuse-ops' .*'graph\.slice'"):
        run_passes(
            new_context(),
            module,
            [Faulty(fuse, Fault("", "graph", "fuse-ops", edit))],  # pyright: ignore
            [ExecCheck()],
        )


@pytest.mark.parametrize("text", [NEGATE, ADD, CALLS, PICK], ids=["negate", "add", "calls", "pick"])
def test_kernels_may_be_the_input(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers that a kernel reads keep their values between its two runs."""
    assert run(monkeypatch, text, "dce,swap-operands") == 0


@pytest.mark.parametrize("text", [ADD, PICK], ids=["add", "pick"])
def test_a_wrong_kernel_is_found(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, text, "add-to-subtract") == 1
    assert "pass 'add-to-subtract' changed result 0 of @" in capsys.readouterr().err


def test_a_buffer_that_is_updated_stays_an_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A buffer that is updated stays an input, from the loop level on and in text that the compiler
    wrote."""
    passes, file = "lower-blocks,lower-loop-to-kernel", str(tmp_path / "kernel.mlir")
    assert run(monkeypatch, UPDATE, passes, "-o", file) == 0
    assert run(monkeypatch, Path(file).read_text(), "dce,cse") == 0


def test_limits_follow_from_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known work is used first, then the last run; `--exec-limit` overrides both."""
    assert time_limit(10**10, MACHINE_CODE, 0.1, None) > 100
    assert time_limit(None, MACHINE_CODE, 10.0, None) > 50
    assert time_limit(10**10, MACHINE_CODE, 0.1, 2.0) == 2.0
    assert run(monkeypatch, ENDLESS, "dce", "--exec-limit", "0.1") == 1
    assert "--exec-limit" in capsys.readouterr().err


def test_only_some_functions_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other inputs keep the values of their first run; an unknown name is rejected."""
    text = f"{ADD}\n{NEGATE.replace('@main', '@negate')}"
    assert run(monkeypatch, text, "add-to-subtract", "--only", "@negate") == 0
    assert run(monkeypatch, text, "add-to-subtract", "--only", "@add") == 1
    capsys.readouterr()
    assert run(monkeypatch, text, "dce", "--only", "@ad") == 1
    assert "'add'" in capsys.readouterr().err


def test_the_emitter_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Machine code is wrong, but the kernel's text is correct."""
    monkeypatch.setitem(emit_arith._FLOAT_BINARY, "arith.subf", "fadd")
    assert run(monkeypatch, UPDATE, "lower-blocks,lower-loop-to-kernel") == 1
    error = capsys.readouterr().err
    assert "the LLVM emitter" in error and "@f" in error


@pytest.mark.parametrize("text", [ADD, CALLS, PICK], ids=["add", "calls", "pick"])
def test_the_emitter_is_named_before_the_first_pass(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong machine code is not used as the reference for kernel-level text."""
    monkeypatch.setitem(emit_arith._FLOAT_BINARY, "arith.addf", "fsub")
    assert run(monkeypatch, text, "dce") == 1
    error = capsys.readouterr().err
    assert "the LLVM emitter" in error and "before the first pass" in error


@pytest.mark.parametrize("passes", ["merge-axes", "merge-axes,lower-te-to-loop"])
def test_a_pass_may_merge_the_axes_of_an_entry(
    passes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without @main a function's arguments and results are converted to its new shape."""
    assert run(monkeypatch, ROWS, passes) == 0


def test_a_schedule_step_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An incorrect primitive in the middle of a sequence."""
    right: Callable[..., list[int]] = split_primitive._extents
    monkeypatch.setattr(
        split_primitive, "_extents", lambda *args: [right(*args)[0] - 1, *right(*args)[1:]]
    )
    assert run(monkeypatch, SCHEDULED, "apply-schedule") == 1
    error = capsys.readouterr().err
    assert "pass 'apply-schedule'" in error and "'sched.split'" in error


def test_clamps_of_large_values_are_seen() -> None:
    """A bound that normally distributed values do not reach."""

    def edit(module: ModuleOp) -> None:
        for op in module.walk():
            if op.name == "arith.constant":
                op.properties["value"] = FloatAttr(50.0, op.results[0].type)  # pyright: ignore

    (real,) = parse_pipeline("dce")
    wrong = Faulty(real, Fault("", "te", "dce", edit))
    ctx = new_context()
    module = Parser(ctx, CLAMPED).parse_module()
    with pytest.raises(MismatchError, match=r"pass 'dce' .*large magnitude"):
        run_passes(ctx, module, [wrong], [ExecCheck()])  # pyright: ignore
