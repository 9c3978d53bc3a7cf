"""Copy blocks between two buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from tcopt.dialects.loop import BlockOp, IterKind, LoadOp, StoreOp
from tcopt.dialects.loop.analysis import Box, over, value_ranges
from tcopt.dialects.size import extents_of
from tcopt.schedules.edits.nest import Span, build_nest
from tcopt.support.arithmetic.affine import simplify


def copy_nest(
    name: str,
    source: SSAValue,
    target: SSAValue,
    box: Box,
    origin: Operation,
    low: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> tuple[BlockOp, Operation]:
    """Build a block that copies a part of `source` to `target`, with the location of `origin`.

    Args:
        box: the copied part, in indices of `source`, or of `target` if `steps` are given.
        low: offset of the elements in `target` along each dimension; 0 by default.
        steps: stride in `source` of one step in `target`, along each dimension; 1 by default.
    Returns:
        The block, and its outermost loop, detached.
    """
    extents = extents_of((source if steps is None else target).type)
    rank = len(extents)
    by = steps or [1] * rank
    body = Block(arg_types=[IndexType()] * rank)
    for dim, variable in enumerate(body.args):
        variable.name_hint = f"vd{dim}"
    read = (AffineDimExpr(d) * n if n != 1 else AffineDimExpr(d) for d, n in enumerate(by))
    load = LoadOp(source, AffineMap(rank, 0, tuple(read)), list(body.args))
    place = (
        AffineDimExpr(d) + n if n else AffineDimExpr(d) for d, n in enumerate(low or [0] * rank)
    )
    map = AffineMap(rank, 0, tuple(place))
    body.add_ops([load, StoreOp(load.result, target, map, list(body.args))])
    kinds = [IterKind.SPATIAL] * rank
    block = BlockOp(name, kinds, extents, AffineMap(0, 0, ()), [], Region(body))
    block.location = origin.location
    values: list[SSAValue] = list(box.operands)
    spans = [Span(over(d.base, box.operands, values), d.extent) for d in box.dims]
    return block, build_nest(block, spans, values)


def shift(block: BlockOp, buffer: SSAValue, low: Sequence[int]) -> None:
    """Subtract `low` from the indices of every load and store of `buffer` in `block`."""
    for op in block.body.walk():
        if isinstance(op, LoadOp | StoreOp) and op.memref is buffer:
            exprs = zip(op.map.data.results, low, strict=True)
            ranges = value_ranges(list(op.indices))
            moved = tuple(simplify(expr - n, ranges) for expr, n in exprs)
            op.map = AffineMapAttr(AffineMap(op.map.data.num_dims, 0, moved))


def redirect(block: BlockOp, source: SSAValue, target: SSAValue) -> None:
    """Redirect every access of `block` from `source` to `target`."""
    for op in block.body.walk():
        for index, operand in enumerate(op.operands):
            if operand is source:
                op.operands[index] = target
