"""Vectorisation of loops, with one lane for each iteration."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.surroundings import knowledge_at
from tcopt.passes.loop.edits.dead_code import erase_dead_ops
from tcopt.passes.loop.vectorize.lanes import LaneRewriter, NotVectorizable
from tcopt.support.ir.quick_ir import walk_ops
from tcopt.support.ir.rewriting import rewrite

_VECTORIZED = loop.LoopKind.VECTORIZED

_MOST_LANES = 64
"""Maximum number of lanes."""


class VectorizeLoop(RewritePattern):
    """Replace an innermost marked loop by vector ops that compute all iterations at once.

        loop.for %j = 0 to 16 vectorized {
          %a = loop.load %x[%i * 16 + %j] : memref<64xf32>
          loop.store %a, %y[%j] : memref<16xf32>
        }
        ->
        %a = loop.load %x[%i * 16] lanes [1] : memref<64xf32>, vector<16xf32>
        loop.store %a, %y[0] lanes [1] : memref<16xf32>, vector<16xf32>

    If that is not possible, the loop becomes serial, with the reason as an attribute.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.ForOp, rewriter: PatternRewriter) -> None:
        if op.loop_kind is not _VECTORIZED or _holds_vectorized(op):
            return
        if op.trip_count <= 1:
            _make_serial(op, rewriter)
            return
        known = knowledge_at(op)
        known.enter_loop(op)
        try:
            if op.trip_count > _MOST_LANES:
                raise NotVectorizable(f"{op.trip_count} lanes are more than {_MOST_LANES}")
            ops = LaneRewriter(op, known).run()
        except NotVectorizable as reason:
            _make_serial(op, rewriter)
            op.attributes["not_vectorized"] = StringAttr(str(reason))
            return
        rewriter.replace(op, ops, [])


def _holds_vectorized(op: loop.ForOp) -> bool:
    return any(
        isinstance(inner, loop.ForOp) and inner.loop_kind is _VECTORIZED
        for inner in walk_ops(op)
        if inner is not op
    )


def _make_serial(op: loop.ForOp, rewriter: PatternRewriter) -> None:
    op.kind = loop.LoopKindAttr(loop.LoopKind.SERIAL)
    rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class VectorizePass(ModulePass):
    """Replace each loop of kind `vectorized` by vector ops with one lane for each iteration.

    Accesses whose index does not depend on the loop stay scalar and are broadcast if combined with
    vectors. Guards that depend on the loop become masks.

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

    If all lanes update one element, their values are combined by `vector.reduction` first:

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

    A loop that cannot be vectorised, because its index arithmetic divides by the lane, iterations
    depend on each other, or there are too many, becomes serial, with the reason as its attribute
    `not_vectorized`.
    """

    name = "vectorize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, loop.FuncOp):
                rewrite(function, [VectorizeLoop()], once=True, inner_first=True)
                erase_dead_ops(function.body.block)
