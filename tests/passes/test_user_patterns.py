"""A pass in a user's file combines the project's patterns with its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tcopt.tools import tcopt

PASS = """
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects import graph
from tcopt.passes.canonicalize import simplifications
from tcopt.passes.graph.folding.constants import Constants
from tcopt.passes.graph.decompose import Decompose
from tcopt.passes.graph.folding.fold_constants import FoldConstant
from tcopt.passes.graph.folding.fold_scale import (
    AddNegated,
    JoinShifts,
    MultiplyByInverse,
    ScaleWeights,
)
from tcopt.passes.graph.folding.fold_shapes import DropBroadcast, SinkReshape
from tcopt.passes.graph.motion.sink_concat import SinkConcat
from tcopt.passes.loop.blocks.fuse_multiply_add import FuseMultiplyAdd
from tcopt.support.ir.rewriting import rewrite


class AbsOfSquare(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.AbsOp, rewriter: PatternRewriter) -> None:
        square = op.x.owner
        if isinstance(square, graph.MulOp) and square.lhs is square.rhs:
            rewriter.replace(op, [], [op.x])


class MyCleanupPass(ModulePass):
    name = "my-cleanup"
    moves_values = True

    def apply(self, ctx, op):
        constants = Constants(op)
        scales = (AddNegated, MultiplyByInverse, JoinShifts, ScaleWeights)
        rewrite(op, [
            *simplifications(ctx), Decompose(), FoldConstant(constants, 65536),
            *(pattern(constants) for pattern in scales),
            DropBroadcast(), SinkReshape(), SinkConcat(), AbsOfSquare(), FuseMultiplyAdd(),
        ])
"""

PROGRAM = """
func.func @main(%x: tensor<1x4x2x8xf32>, %z: tensor<1x4x2x8xf32>) -> tensor<1x8x2x8xf32> {
  %w = graph.constant dense<0.5> : tensor<4x4x1x1xf32>
  %s = graph.constant dense<[[[2.0]], [[4.0]], [[1.0]], [[3.0]]]> : tensor<4x1x1xf32>
  %t = graph.constant dense<0.25> : tensor<f32>
  %c = graph.conv %x, %w : tensor<1x4x2x8xf32>
  %d = graph.div %c, %s : tensor<1x4x2x8xf32>
  %e = graph.sub %d, %t : tensor<1x4x2x8xf32>
  %f = graph.add %e, %s : tensor<1x4x2x8xf32>
  %g = graph.concat %f, %z {axis = 1} : tensor<1x8x2x8xf32>
  %h = graph.relu %g : tensor<1x8x2x8xf32>
  %i = graph.mul %h, %h : tensor<1x8x2x8xf32>
  %j = graph.abs %i : tensor<1x8x2x8xf32>
  func.return %j : tensor<1x8x2x8xf32>
}
"""


def test_patterns_of_several_passes_are_one_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scales are folded into weights, the concatenation moves to the end, and results are
    unchanged."""
    (tmp_path / "own.py").write_text(PASS)
    (tmp_path / "main.mlir").write_text(PROGRAM)
    files = [str(tmp_path / "main.mlir"), "--load", str(tmp_path / "own.py")]
    assert tcopt.main([*files, "-p", "my-cleanup", "--verify-each=exec"]) == 0
    shown = capsys.readouterr()
    assert "my-cleanup: same values" in shown.err
    ops = re.findall(r"graph\.(\w+)", shown.out)
    assert ops == ["constant", "conv", "constant", "add", "relu", "relu", "concat", "mul"]


LEVELS = """
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from tcopt.passes.kernel.cleanup.dce import DropCarriedValues, EraseUnreadBuffer, EraseUnused
from tcopt.passes.loop.blocks.fuse_multiply_add import FuseMultiplyAdd
from tcopt.passes.loop.blocks.guards import HoistGuards, JoinGuards, MergeNestedGuard
from tcopt.passes.loop.blocks.lower_blocks import LowerBlock, SimplifyAccess, SimplifyGuard
from tcopt.support.ir.rewriting import rewrite


class AddOfItself(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddfOp, rewriter: PatternRewriter) -> None:
        if op.lhs is op.rhs:
            two = rewriter.insert(arith.ConstantOp(FloatAttr(2.0, op.result.type)))
            rewriter.replace(op, arith.MulfOp(op.lhs, two.result, op.fastmath))


BLOCKS = [LowerBlock(), SimplifyGuard(), SimplifyAccess(), AddOfItself(), FuseMultiplyAdd()]
GUARDS = [MergeNestedGuard(), JoinGuards(), HoistGuards()]
KERNELS = [EraseUnused(), DropCarriedValues(), EraseUnreadBuffer()]


class MyLevelsPass(ModulePass):
    name = "my-levels"

    def apply(self, ctx, op):
        for patterns in (BLOCKS, GUARDS, KERNELS):
            rewrite(op, patterns)


class MyWalkPass(ModulePass):
    name = "my-walk"

    def apply(self, ctx, op):
        for patterns in (BLOCKS, GUARDS, KERNELS):
            PatternRewriteWalker(GreedyRewritePatternApplier(patterns)).rewrite_module(op)
"""

LOOPS = """
loop.func @main(%x: memref<8x8xf32>, %y: memref<8x8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 {
      loop.block "a" (%v: spatial 7 = %i, %w: spatial 5 = %j) {
        %a = loop.load %x[%v, %w] : memref<8x8xf32>
        %b = arith.addf %a, %a fastmath<contract> : f32
        %c = arith.addf %b, %a fastmath<contract> : f32
        loop.store %c, %y[%v, %w] : memref<8x8xf32>
      }
    }
  }
}
"""

KERNEL = """
func.func private @kernel(%x: memref<8xf32>, %y: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %t = memref.alloca() : memref<8xf32>
  %r:2 = scf.for %i = %c0 to %c8 step %c1 iter_args(%s = %zero, %u = %zero) -> (f32, f32) {
    %a = memref.load %x[%i] : memref<8xf32>
    %b = arith.addf %a, %a : f32
    memref.store %b, %t[%i] : memref<8xf32>
    %d = arith.addf %s, %b : f32
    scf.yield %d, %u : f32, f32
  }
  memref.store %r#0, %y[%c0] : memref<8xf32>
  func.return
}
"""


@pytest.mark.parametrize("name", ["my-levels", "my-walk"])
def test_patterns_of_lower_levels(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loop and kernel patterns also form a pass, with the project's driver and with xDSL's."""
    (tmp_path / "own.py").write_text(LEVELS)

    def ops(text: str) -> list[str]:
        (tmp_path / "main.mlir").write_text(text)
        files = [str(tmp_path / "main.mlir"), "--load", str(tmp_path / "own.py")]
        assert tcopt.main([*files, "-p", name, "--verify-each"]) == 0
        shown = capsys.readouterr().out
        return re.findall(r"(?:arith|loop|memref|math|scf)\.(?!constant|func)\w+", shown)

    body = "loop.load math.fma loop.store"
    assert ops(LOOPS) == f"loop.for loop.guard loop.for loop.guard {body}".split()
    body = "memref.load arith.mulf arith.addf scf.yield memref.store"
    assert ops(KERNEL) == f"scf.for {body}".split()
