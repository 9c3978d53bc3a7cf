"""The pass `expand-borders`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, IndexType, ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import loop
from tcopt.dialects.loop.border import Side
from tcopt.dialects.target import cpu_target_of


@dataclass(frozen=True)
class ExpandBordersPass(ModulePass):
    """Makes loops of vectors of each `loop.border`.

        loop.border %y outside [0 to 16, 1 to 7, 0 to 16] = 0.0 : memref<16x8x16xf32>
        ->
        %0 = arith.constant 0.0 : f32
        loop.for %i = 0 to 16 {
          loop.for %l = 0 to 16 vectorized { loop.store %0, %y[%i, 0, %l] }
        }
        loop.for %i = 0 to 16 {
          loop.for %l = 0 to 16 vectorized { loop.store %0, %y[%i, 7, %l] }
        }

    A last dimension of more than a vector is written in vectors and a rest. Without a target
    a vector has 4 elements.
    """

    name = "expand-borders"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_target_of(op)
        for border in [inner for inner in op.walk() if isinstance(inner, loop.BorderOp)]:
            element = border.type.get_element_type()
            bits = element.bitwidth if isinstance(element, FixedBitwidthType) else 32
            lanes = 4 if target is None else target.vector_lanes(bits)
            builder = Builder(InsertPoint.before(border))
            value = builder.insert(arith.ConstantOp(border.value)).result
            for side in border.sides():
                _fill(builder, border.buffer, value, side, lanes)
            Rewriter.erase_op(border)


def _fill(builder: Builder, buffer: SSAValue, value: SSAValue, side: Side, lanes: int) -> None:
    """Loops over a box, the last dimension in vectors."""
    indices: list[SSAValue] = []
    exprs: list[AffineExpr] = []
    for first, extent in zip(side.first[:-1], side.extents[:-1], strict=True):
        expr: AffineExpr = AffineConstantExpr(first)
        if extent > 1:
            builder = _enter(builder, extent, loop.LoopKind.SERIAL, indices)
            expr = AffineDimExpr(len(indices) - 1) + first
        exprs.append(expr)
    if not side.extents:
        map = AffineMap(0, 0, ())
        builder.insert(loop.StoreOp(value, buffer, map, ()))
        return
    first, extent = side.first[-1], side.extents[-1]
    whole, rest = divmod(extent, lanes)
    for start, count, width in ((first, whole, lanes), (first + whole * lanes, 1, rest)):
        if count and width:
            _vectors(builder, buffer, value, (start, count, width), exprs, list(indices))


def _vectors(
    builder: Builder,
    buffer: SSAValue,
    value: SSAValue,
    span: tuple[int, int, int],
    exprs: list[AffineExpr],
    indices: list[SSAValue],
) -> None:
    """Stores of `count` vectors of `width` elements along the last dimension."""
    start, count, width = span
    last: AffineExpr = AffineConstantExpr(start)
    if count > 1:
        builder = _enter(builder, count, loop.LoopKind.SERIAL, indices)
        last = AffineDimExpr(len(indices) - 1) * width + start
    if width > 1:
        builder = _enter(builder, width, loop.LoopKind.VECTORIZED, indices)
        last = last + AffineDimExpr(len(indices) - 1)
    map = AffineMap(len(indices), 0, (*exprs, last))
    builder.insert(loop.StoreOp(value, buffer, map, indices))


def _enter(builder: Builder, extent: int, kind: loop.LoopKind, indices: list[SSAValue]) -> Builder:
    """A loop at the builder's place; a builder inside of it."""
    body = Block(arg_types=[IndexType()])
    builder.insert(loop.ForOp(extent, Region(body), kind))
    indices.append(body.args[0])
    return Builder(InsertPoint.at_end(body))
