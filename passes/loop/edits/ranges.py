"""Splitting of loop ranges."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.passes.loop.edits.substitution import substitute_values


def split_off(op: loop.ForOp, full: int, known: Knowledge) -> loop.ForOp:
    """Shorten a loop to its first `full` iterations, and insert a loop over the others after it."""
    tail = op.clone()
    tail.extent = IntegerAttr(op.trip_count - full, i64)
    op.extent = IntegerAttr(full, i64)
    Rewriter.insert_op(tail, InsertPoint.after(op))
    if op.limit is not None:
        rest = AffineMap(1, 0, (AffineDimExpr(0) - full,))
        left = loop.IndexOp(rest, [op.limit])
        Rewriter.insert_op(left, InsertPoint.before(op))
        tail.limit = left.result
    known.enter_loop(op)
    variable = tail.induction_variable
    known.enter_loop(tail)
    shifted = AffineDimExpr(0) + AffineConstantExpr(full)
    substitute_values(tail.body.block, {variable: (shifted, [variable])}, known)
    return tail
