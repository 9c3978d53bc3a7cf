"""Addition and removal of buffer dimensions, with updates of the accesses."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.size import sized_memref
from tcopt.passes.loop.analysis.indexing import set_access
from tcopt.support.arithmetic.affine import substitute
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.syntax.access_syntax import unique_operands

AccessOp = loop.LoadOp | loop.StoreOp


def accesses_of(alloc: loop.AllocOp) -> list[AccessOp] | None:
    """Return the loads and stores of a buffer; None if it has other users."""
    uses = (use.operation for use in alloc.result.uses)
    users = dict.fromkeys(op for op in uses if op.parent is not None)
    found = [op for op in users if isinstance(op, loop.LoadOp | loop.StoreOp)]
    return found if len(found) == len(users) else None


def add_dimension(op: AccessOp, expr: AffineExpr, values: Sequence[SSAValue]) -> None:
    """Prepend an index, an expression over values, to an access."""
    rows, operands = op.lane_steps, list(op.indices)
    dims: list[AffineExpr] = [AffineDimExpr(len(operands) + i) for i in range(len(values))]
    exprs = (substitute(expr, dims), *op.map.data.results)
    map = AffineMap(len(operands) + len(values), 0, exprs)
    set_access(op, *unique_operands(map, [*operands, *values]))
    if rows:
        op.lanes = DenseArrayBase.from_list(i64, [n for row in rows for n in (0, *row)])


def add_tile_dimension(
    op: loop.IntrinOp, buffer: SSAValue, expr: AffineExpr, values: Sequence[SSAValue]
) -> None:
    """Prepend an index to an intrinsic's tiles of a buffer."""
    ranks: list[int] = []
    places: list[AffineExpr] = []
    operands = [*op.indices, *values]
    dims: list[AffineExpr] = [AffineDimExpr(len(op.indices) + i) for i in range(len(values))]
    steps: list[list[list[int]]] = []
    for tile in op.tiles:
        is_in = tile.buffer is buffer
        places += [*([substitute(expr, dims)] if is_in else []), *tile.first]
        ranks.append(len(tile.first) + is_in)
        steps.append([[*([0] if is_in else []), *row] for row in tile.steps])
    map, kept = unique_operands(AffineMap(len(operands), 0, tuple(places)), operands)
    op.set_tiles(map, kept, steps)


def drop_dimensions(op: AccessOp, dropped: Collection[int]) -> None:
    """Remove some indices of an access."""
    rows, map = op.lane_steps, op.map.data
    exprs = tuple(expr for dim, expr in enumerate(map.results) if dim not in dropped)
    set_access(op, *unique_operands(AffineMap(map.num_dims, 0, exprs), list(op.indices)))
    if rows:
        kept = [n for row in rows for dim, n in enumerate(row) if dim not in dropped]
        op.lanes = DenseArrayBase.from_list(i64, kept)


def reshape(alloc: loop.AllocOp, shape: Sequence[Extent]) -> loop.AllocOp:
    """Replace an allocation by one of another shape; accesses are updated by the caller."""
    type_ = alloc.result.type
    assert isa(type_, MemRefType)
    new = loop.AllocOp.create(
        result_types=[sized_memref(shape, type_.get_element_type(), type_.memory_space)],
        properties=alloc.properties,
        attributes=alloc.attributes,
    )
    new.result.name_hint = alloc.result.name_hint
    new.location = alloc.location
    Rewriter.replace_op(alloc, new)
    return new
