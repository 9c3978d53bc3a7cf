"""The reported pass is the one that left invalid IR, not the one that failed on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcopt.tools.tcopt import main

TEXT = """te.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = te.compute "y" [%i = 8] : tensor<8xf32> {
    %a = te.read %x[%i] : tensor<8xf32>
    te.yield %a : f32
  }
  te.return %y : tensor<8xf32>
}"""

BREAKS = '''"""A pass that does what it is told to a stage."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from tcopt.dialects import te
from tcopt.support.ir.literals import number_list


@dataclass(frozen=True)
class BreakStages(ModulePass):
    """Breaks every stage."""

    name = "break-stages"

    def apply(self, ctx, op):
        for stage in op.walk():
            if isinstance(stage, te.ComputeOp):
                {change}
'''

CHANGES = {
    "a property is missing": 'del stage.properties["extents"]',
    "a shape is another": 'stage.properties["extents"] = number_list(7)',
    "an index is outside": (
        "stage.body.block.first_op.properties['map'] = "
        "__import__('xdsl.dialects.builtin', fromlist=['']).AffineMapAttr("
        "__import__('xdsl.ir.affine', fromlist=['']).AffineMap.from_callable(lambda i: (i + 5,)))"
    ),
    "a stage has no name": 'del stage.properties["stage"]',
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_the_first_pass_that_leaves_invalid_ir_is_named(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, passes = tmp_path / "f.mlir", tmp_path / "break_stages.py"
    text.write_text(TEXT)
    passes.write_text(BREAKS.replace("{change}", change))
    pipeline = "te-inline,break-stages,lower-te-to-loop,lower-blocks"
    assert main([str(text), "--load", str(passes), "-p", pipeline]) == 1
    error = capsys.readouterr().err
    assert "invalid-ir: after pass 'break-stages': 'te." in error, error


def test_an_error_of_a_pass_on_valid_ir_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "f.mlir"
    text.write_text(TEXT)
    assert main([str(text), "-p", "te-inline,lower-te-to-loop,lower-loop-to-kernel"]) == 1
    assert "pass-failed: 'loop.block'" in capsys.readouterr().err


def test_of_a_large_module_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The IR is not verified after each pass until something fails."""
    monkeypatch.setattr("tcopt.tools.tcopt._VERIFIED_OPS", 0)
    test_the_first_pass_that_leaves_invalid_ir_is_named(
        CHANGES["a property is missing"], tmp_path, capsys
    )
