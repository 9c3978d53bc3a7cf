"""The pass `unroll-loops`.

A walk by hand: what loops and guards around say of indices is threaded through.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.passes.loop.edits.dead_code import erase_dead_ops
from tcopt.passes.loop.unroll.unrolling import Unroller
from tcopt.support.quick_ir import erase_op, insert_ops


@dataclass(frozen=True)
class UnrollLoopsPass(ModulePass):
    """Replaces each loop of kind `unrolled` by one copy of its body for every iteration.

    The loop variable's value is folded into every access, guard and mask; those that then
    always hold disappear, and so does what can never run.

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
                _visit(function.body.block, Knowledge())
                erase_dead_ops(function.body.block)


def _visit(block: Block, known: Knowledge) -> None:
    for op in tuple(block.ops):
        match op:
            case loop.ForOp() if op.loop_kind is loop.LoopKind.UNROLLED:
                insert_ops(Unroller(known).run(op), op)
                erase_op(op)
            case loop.ForOp():
                known.enter_loop(op)
                _visit(op.body.block, known)
            case loop.GuardOp():
                with known.inside_guard(op.map.data.results, op.indices, op.condition_extents):
                    _visit(op.body.block, known)
            case _:
                pass
