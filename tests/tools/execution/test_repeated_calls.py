"""`--verify-each=exec` on functions that are called several times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.parser import Parser

from faults.planted import Fault
from faults.runs import Faulty
from tcopt.dialects import loop
from tcopt.support.errors import MismatchError
from tcopt.support.pipelines.running import new_context, run_passes
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.tools.execution import traced_run
from tcopt.tools.execution.exec_check import ExecCheck

TWICE = """loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.block "b" (%v: spatial 8 = %i) {
      %0 = loop.load %x[%v] : memref<8xf32>
      %1 = arith.constant 0.5 : f32
      %2 = arith.subf %0, %1 : f32
      loop.store %2, %y[%v] : memref<8xf32>
    }
  }
}
func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) {
  %t = memref.alloc() : memref<8xf32>
  loop.call @f(%x, %t) : memref<8xf32>, memref<8xf32>
  loop.call @f(%t, %y) : memref<8xf32>, memref<8xf32>
  func.return
}"""


def rename_block(module: ModuleOp) -> None:
    """Change the function's text without changing its results."""
    for op in module.walk():
        if isinstance(op, loop.ForOp):
            op.attributes["kept"] = op.body.block.args[0].type


def change_constant(module: ModuleOp) -> None:
    """Subtract another number."""
    for op in module.walk():
        if isinstance(op, arith.ConstantOp):
            op.properties["value"] = FloatAttr(0.75, f32)


def forget_first_call(module: ModuleOp) -> None:
    """Give the second call the input of the first."""
    first, second = (op for op in module.walk() if isinstance(op, loop.CallOp))
    second.operands[0] = first.operands[0]


def run(edit: Callable[[ModuleOp], None]) -> None:
    (real,) = parse_pipeline("dce")
    ctx = new_context()
    changed: Any = Faulty(real, Fault("", "loop", "dce", edit))
    run_passes(ctx, Parser(ctx, TWICE).parse_module(), [changed], [ExecCheck()])


@pytest.mark.parametrize("work, calls", [(0, 1), (traced_run.REPEATED_WORK, 2)])
def test_a_large_function_runs_once_after_a_pass(
    work: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first pass both calls run, on normal and on large inputs."""
    monkeypatch.setattr(traced_run, "REPEATED_WORK", work)
    runs = 0
    real = traced_run.run_plain

    def counted(*args: Any) -> Any:
        nonlocal runs
        runs += 1
        return real(*args)

    monkeypatch.setattr(traced_run, "run_plain", counted)
    run(rename_block)
    assert runs == 2 * (2 + calls)


@pytest.mark.parametrize("edit", [forget_first_call, change_constant])
def test_faults_in_repeated_calls_are_found(
    edit: Callable[[ModuleOp], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults in the called function and in its arguments are found."""
    monkeypatch.setattr(traced_run, "REPEATED_WORK", 0)
    with pytest.raises(MismatchError, match="pass 'dce' changed"):
        run(edit)
