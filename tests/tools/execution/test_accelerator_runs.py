"""`--verify-each=exec` on accelerator programs: streams run in every order that tokens allow."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tcopt.tools.tcopt import main

PROGRAM = """
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768,
    acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @main(%x: memref<12x16xi8>, %w: memref<2x16x16xi8>, %y: memref<4x16xi32>) {
    loop.call @product(%x, %w, %y) : memref<12x16xi8>, memref<2x16x16xi8>, memref<4x16xi32>
    func.return
  }
  accelerator.program @product(%x: memref<12x16xi8>, %w: memref<2x16x16xi8>, %y: memref<4x16xi32>) {
    %k = vdla.kernel gemm at 0 [4] dst [1] src [1] wgt [0] {
      uop 0, 0, 0
    }
    vdla.load_uops %k
    vdla.gemm reset %k
    vdla.load inp 0, %x[0] : 1x4
    vdla.load wgt 0, %w[0] : 1x1
    vdla.gemm %k
    vdla.load inp 0, %x[8] : 1x4
    vdla.gemm %k
    vdla.store acc 0, %y[0] : 1x4
    accelerator.finish
  }
}
"""

FAULTS = """
from dataclasses import dataclass

from xdsl.passes import ModulePass

from tcopt.dialects.vdla import LoadOp, GemmOp
from tcopt.support.registries.registry import register_pass


@register_pass
@dataclass(frozen=True)
class LoseTokenPass(ModulePass):
    name = "lose-token"

    def apply(self, ctx, op):
        for each in op.walk():
            if isinstance(each, LoadOp):
                each.set_tokens((), each.sends_to)
            if isinstance(each, GemmOp):
                each.set_tokens(each.waits_for, [u for u in each.sends_to if u != "load"])


@register_pass
@dataclass(frozen=True)
class LoadElsewherePass(ModulePass):
    name = "load-elsewhere"

    def apply(self, ctx, op):
        loads = [each for each in op.walk() if isinstance(each, LoadOp)]
        loads[-1].properties["offset"] = loads[0].offset
"""


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "faults.py"
    path.write_text(FAULTS)
    return str(path)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROGRAM.encode())))
    return main(["--verify-each=exec", *arguments])


def test_stream_passes_keep_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code that only the encoding pass changes is compared by the results of @main."""
    assert run(monkeypatch, "-p", "order-units,accelerator-check,encode-accelerator") == 0
    error = capsys.readouterr().err
    assert "// exec: order-units: same values, 1 compared" in error
    assert "// exec: encode-accelerator: same values" in error


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("lose-token", "y of @product depends on the order in which the units run"),
        ("load-elsewhere", "changed result 0 of @product"),
    ],
)
def test_a_wrong_stream_is_found_and_its_pass_named(
    fault: str,
    message: str,
    plugin: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "--load", plugin, "-p", f"order-units,{fault}") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"pass '{fault}'" in error and message in error
