"""The pass `vectorize`.

A walk by hand: what loops and guards around say of indices is threaded through.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.passes.loop.edits.dead_code import erase_dead_ops
from tcopt.passes.loop.vectorize.lanes import LaneRewriter, NotVectorizable
from tcopt.support.rewriting import erase


@dataclass(frozen=True)
class VectorizePass(ModulePass):
    """Replaces each loop of kind `vectorized` by vector ops with one lane an iteration.

    Accesses whose index does not depend on the loop stay scalar and are broadcast where they
    meet a vector. Guards that depend on the loop become masks.

        loop.for %j = 0 to 16 vectorized {
          loop.guard ([%i * 16 + %j] in 100) {
            %a = loop.load %x[%i * 16 + %j] : memref<100xf32>
            %b = loop.load %s[0] : memref<1xf32>
            %c = arith.mulf %a, %b : f32
            loop.store %c, %y[%i * 16 + %j] : memref<100xf32>
        ->
        %m = loop.mask ([%i * 16] in 100 step 1) : vector<16xi1>
        %a = loop.load %x[%i * 16] lanes [1] mask %m : memref<100xf32>, vector<16xf32>
        %b = loop.load %s[0] else 0.0 : memref<1xf32>
        %v = vector.broadcast %b : f32 to vector<16xf32>
        %c = arith.mulf %a, %v : vector<16xf32>
        loop.store %c, %y[%i * 16] lanes [1] mask %m : memref<100xf32>, vector<16xf32>

    What all lanes combine with one element is combined by `vector.reduction` first:

        loop.for %j = 0 to 16 vectorized {
          %a = loop.load %x[%j] : memref<16xf32>
          %b = loop.load %s[0] : memref<1xf32>
          %c = arith.addf %b, %a : f32
          loop.store %c, %s[0] : memref<1xf32>
        ->
        %a = loop.load %x[0] lanes [1] : memref<16xf32>, vector<16xf32>
        %r = vector.reduction <add>, %a fastmath<reassoc> : vector<16xf32> into f32
        %b = loop.load %s[0] : memref<1xf32>
        %c = arith.addf %b, %r : f32
        loop.store %c, %s[0] : memref<1xf32>

    A loop that cannot be written so, because its index arithmetic divides by lanes, lanes
    depend on each other or there are too many, is left serial with the reason as its
    attribute `not_vectorized`.

    Options:
        max_lanes: the longest vector to make.
    """

    name = "vectorize"

    max_lanes: int = 64

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, loop.FuncOp):
                self._visit(function.body.block, Knowledge())
                erase_dead_ops(function.body.block)

    def _visit(self, block: Block, known: Knowledge) -> None:
        for op in tuple(block.ops):
            match op:
                case loop.ForOp():
                    known.enter_loop(op)
                    self._visit(op.body.block, known)
                    if op.loop_kind is loop.LoopKind.VECTORIZED:
                        self._vectorize(op, known)
                case loop.GuardOp():
                    exprs, extents = op.map.data.results, op.condition_extents
                    with known.inside_guard(exprs, op.indices, extents):
                        self._visit(op.body.block, known)
                case _:
                    pass

    def _vectorize(self, op: loop.ForOp, known: Knowledge) -> None:
        if op.trip_count <= 1:
            op.kind = loop.LoopKindAttr(loop.LoopKind.SERIAL)
            return
        try:
            if op.trip_count > self.max_lanes:
                raise NotVectorizable(f"{op.trip_count} lanes are more than {self.max_lanes}")
            ops = LaneRewriter(op, known).run()
        except NotVectorizable as reason:
            op.kind = loop.LoopKindAttr(loop.LoopKind.SERIAL)
            op.attributes["not_vectorized"] = StringAttr(str(reason))
            return
        Rewriter.insert_op(ops, InsertPoint.before(op))
        erase(op)
