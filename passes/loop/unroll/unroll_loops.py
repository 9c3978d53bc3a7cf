"""Loop unrolling."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.surroundings import knowledge_at
from tcopt.passes.loop.edits.dead_code import erase_dead_ops
from tcopt.passes.loop.unroll.unrolling import Unroller
from tcopt.support.ir.rewriting import rewrite


class UnrollLoop(RewritePattern):
    """Unroll a loop, and the loops in it that are marked as well.

    loop.for %i = 0 to 2 unrolled {
      %a = loop.load %x[%j * 2 + %i] : memref<8xf32>
      loop.store %a, %y[%i * 8] : memref<16xf32>
    }
    ->
    %a = loop.load %x[%j * 2] : memref<8xf32>
    loop.store %a, %y[0] : memref<16xf32>
    %b = loop.load %x[%j * 2 + 1] : memref<8xf32>
    loop.store %b, %y[8] : memref<16xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.ForOp, rewriter: PatternRewriter) -> None:
        if op.loop_kind is loop.LoopKind.UNROLLED:
            rewriter.replace(op, Unroller(knowledge_at(op)).run(op), [])


@dataclass(frozen=True)
class UnrollLoopsPass(ModulePass):
    """Replace each loop of kind `unrolled` by a copy of its body for every iteration.

    The value of the loop variable is folded into every access, guard and mask. Guards and masks
    that always hold are removed, and so is code that never runs.

        loop.for %i = 0 to 2 unrolled {
          loop.guard ([%j * 2 + %i] in 7) {
            %a = loop.load %x[%j * 2 + %i] : memref<7xf32>
            loop.store %a, %y[%i * 8 + 1] : memref<16xf32>
        ->
        %a = loop.load %x[%j * 2] : memref<7xf32>
        loop.store %a, %y[1] : memref<16xf32>
        loop.guard ([%j * 2 + 1] in 7) {
          %b = loop.load %x[%j * 2 + 1] : memref<7xf32>
          loop.store %b, %y[9] : memref<16xf32>
    """

    name = "unroll-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, loop.FuncOp):
                rewrite(function, [UnrollLoop()], once=True)
                erase_dead_ops(function.body.block)
