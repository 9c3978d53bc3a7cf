"""Expansion of constant borders to loops of stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, IndexType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from tcopt.dialects import loop
from tcopt.dialects.loop.border import Side
from tcopt.dialects.loop.structure import function_of
from tcopt.dialects.size import size_arguments, size_expression
from tcopt.dialects.target import VectorUnits, target_facts_of
from tcopt.support.arithmetic.affine import substitute
from tcopt.support.arithmetic.sizes import Size, is_fixed, upper_bound
from tcopt.support.ir.rewriting import rewrite


@dataclass
class ExpandBorder(RewritePattern):
    """Fill the elements of a buffer outside of its inner part by loops of vector stores.

        loop.border %y outside [1 to 15] = 0.0 : memref<16xf32>
        ->
        %0 = arith.constant 0.0 : f32
        loop.store %0, %y[0] : memref<16xf32>
        loop.store %0, %y[15] : memref<16xf32>

    Attributes:
        units: vector units of the target; without any, vectors have 4 elements.
    """

    units: VectorUnits | None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.BorderOp, rewriter: PatternRewriter) -> None:
        element = op.type.get_element_type()
        bits = element.bitwidth if isinstance(element, FixedBitwidthType) else 32
        lanes = 4 if self.units is None else self.units.lanes(bits)
        around = _parallel_loop(op) if is_fixed((*op.shape, *op.ends)) else None
        if around is not None:
            rewriter.insertion_point = InsertPoint.at_end(around.body.block)
        value = rewriter.insert(arith.ConstantOp(op.value)).result
        function = function_of(op)
        sizes = {} if function is None else size_arguments(function)
        for side in op.sides():
            _fill(rewriter, op.buffer, value, side, lanes, around, sizes)
        rewriter.erase(op)


def _parallel_loop(border: loop.BorderOp) -> loop.ForOp | None:
    """Return a parallel loop before the border that stores to its buffer, or None."""
    for use in border.buffer.uses:
        op: Operation | None = use.operation
        if not isinstance(op, loop.StoreOp):
            continue
        while op is not None and op.parent is not border.parent:
            op = op.parent_op()
        if isinstance(op, loop.ForOp) and op.loop_kind is loop.LoopKind.PARALLEL:
            return op
    return None


@dataclass(frozen=True)
class _Share:
    """Share of one iteration in work that is divided among several.

    Attributes:
        number: index of the iteration among them, as an expression of the indices.
        count: number of iterations.
    """

    number: AffineExpr
    count: int


def _fill(
    builder: Builder,
    buffer: SSAValue,
    value: SSAValue,
    side: Side,
    lanes: int,
    around: loop.ForOp | None,
    sizes: Mapping[str, SSAValue],
) -> None:
    """Emit vector stores over a box, or over an iteration's share of it.

    Args:
        sizes: the argument of the function for each size. Along a dimension whose extent is a
            size, elements are written one by one.
    """
    indices: list[SSAValue] = []
    exprs: list[AffineExpr] = []
    share: _Share | None = None
    if around is not None:
        indices.append(around.induction_variable)
        share = _Share(AffineDimExpr(0), around.trip_count)
    for first, extent in zip(side.first[:-1], side.extents[:-1], strict=True):
        start = _start(first, sizes, indices)
        expr = start
        if extent != 1 and share is not None:
            builder, expr, share = _divide(builder, extent, share, indices)
            expr = expr + start
        elif extent != 1:
            builder = _enter(builder, extent, loop.LoopKind.SERIAL, indices, sizes)
            expr = AffineDimExpr(len(indices) - 1) + start
        exprs.append(expr)
    if share is not None and share.count > 1:
        builder = _guard(builder, share.number, 1, indices)
    if not side.extents:
        map = AffineMap(0, 0, ())
        builder.insert(loop.StoreOp(value, buffer, map, ()))
        return
    first, extent = _start(side.first[-1], sizes, indices), side.extents[-1]
    if isinstance(extent, Size):
        builder = _enter(builder, extent, loop.LoopKind.SERIAL, indices, sizes)
        last = AffineDimExpr(len(indices) - 1) + first
        map = AffineMap(len(indices), 0, (*exprs, last))
        builder.insert(loop.StoreOp(value, buffer, map, indices))
        return
    whole, rest = divmod(extent, lanes)
    for start, count, width in ((first, whole, lanes), (first + whole * lanes, 1, rest)):
        if count and width:
            _vectors(builder, buffer, value, (start, count, width), exprs, list(indices))


def _start(first: int, sizes: Mapping[str, SSAValue], indices: list[SSAValue]) -> AffineExpr:
    """Return the first index of a box as an expression of the indices and sizes."""
    expr, values = size_expression(first, sizes)
    dims = [AffineDimExpr(len(indices) + place) for place in range(len(values))]
    indices += values
    return substitute(expr, dims)


def _divide(
    builder: Builder, extent: int, share: _Share, indices: list[SSAValue]
) -> tuple[Builder, AffineExpr, _Share | None]:
    """Divide a dimension among iterations.

    Returns:
        A builder inside, the index, and the remaining share of each index.
    """
    number, count = share.number, share.count
    if count < extent:
        builder = _enter(builder, ceil(extent / count), loop.LoopKind.SERIAL, indices)
        step = AffineDimExpr(len(indices) - 1)
        if extent % count == 0:
            return builder, number * (extent // count) + step, None
        index = step * count + number
        return _guard(builder, index, extent, indices), index, None
    each = count // extent
    index = number // each if each > 1 else number
    if each * extent < count:
        builder = _guard(builder, index, extent, indices)
    return builder, index, _Share(number % each, each) if each > 1 else None


def _guard(builder: Builder, expr: AffineExpr, extent: int, indices: list[SSAValue]) -> Builder:
    """Insert a guard, and return a builder inside of it."""
    body = Block()
    map = AffineMap(len(indices), 0, (expr,))
    builder.insert(loop.GuardOp(map, indices, [extent], Region(body)))
    return Builder(InsertPoint.at_end(body))


def _vectors(
    builder: Builder,
    buffer: SSAValue,
    value: SSAValue,
    span: tuple[AffineExpr, int, int],
    exprs: list[AffineExpr],
    indices: list[SSAValue],
) -> None:
    """Emit `count` stores of vectors of `width` elements along the last dimension."""
    start, count, width = span
    last = start
    if count > 1:
        builder = _enter(builder, count, loop.LoopKind.SERIAL, indices)
        last = AffineDimExpr(len(indices) - 1) * width + start
    if width > 1:
        builder = _enter(builder, width, loop.LoopKind.VECTORIZED, indices)
        last = last + AffineDimExpr(len(indices) - 1)
    map = AffineMap(len(indices), 0, (*exprs, last))
    builder.insert(loop.StoreOp(value, buffer, map, indices))


def _enter(
    builder: Builder,
    extent: int,
    kind: loop.LoopKind,
    indices: list[SSAValue],
    sizes: Mapping[str, SSAValue] | None = None,
) -> Builder:
    """Insert a loop, and return a builder inside of it."""
    body = Block(arg_types=[IndexType()])
    limit = None
    if isinstance(extent, Size):
        expr, values = size_expression(extent, sizes or {})
        limit = builder.insert(loop.IndexOp(AffineMap(len(values), 0, (expr,)), values)).result
    builder.insert(loop.ForOp(upper_bound(extent), Region(body), kind, limit=limit))
    indices.append(body.args[0])
    return Builder(InsertPoint.at_end(body))


@dataclass(frozen=True)
class ExpandBordersPass(ModulePass):
    """Lower each `loop.border` to loops of vector stores.

        loop.border %y outside [0 to 16, 1 to 7, 0 to 16] = 0.0 : memref<16x8x16xf32>
        ->
        %0 = arith.constant 0.0 : f32
        loop.for %i = 0 to 16 {
          loop.for %l = 0 to 16 vectorized { loop.store %0, %y[%i, 0, %l] }
        }
        loop.for %i = 0 to 16 {
          loop.for %l = 0 to 16 vectorized { loop.store %0, %y[%i, 7, %l] }
        }

    If the last dimension is longer than a vector, it is written in vectors and a remainder. Without
    a target, a vector has 4 elements. If a parallel loop stores to the buffer, its iterations share
    the border, each writing roughly the part next to its own elements. If ends or extents are
    sizes, the border is written by loops of its own.
    """

    name = "expand-borders"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        rewrite(op, [ExpandBorder(None if target is None else target.vectors)])
