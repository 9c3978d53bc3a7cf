"""Multi-head attention helpers shared by onnxruntime's attention operators."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.handlers.shaping import reshaped, transposed

MASKED_BY_DEFAULT = -10000.0
"""Value that onnxruntime adds to masked scores."""


def split_heads(ctx: NodeContext, x: SSAValue, heads: int) -> SSAValue:
    """Convert [batch, length, heads * size] to [batch, heads, length, size]."""
    ctx.check(ctx.rank(x) == 3, f"{list(ctx.shape(x))} should be [batch, length, width]")
    batch, length, width = ctx.shape(x)
    ctx.check(heads > 0 and width % heads == 0, f"{width} does not split into {heads} heads")
    return transposed(ctx, reshaped(ctx, x, (batch, length, heads, width // heads)), [0, 2, 1, 3])


def join_heads(ctx: NodeContext, x: SSAValue) -> SSAValue:
    """Convert [batch, heads, length, size] to [batch, length, heads * size]."""
    batch, heads, length, size = ctx.shape(x)
    return reshaped(ctx, transposed(ctx, x, [0, 2, 1, 3]), (batch, length, heads * size))


def columns(ctx: NodeContext, x: SSAValue, start: int, count: int) -> SSAValue:
    """Slice a range of the last axis."""
    *outer, _ = ctx.shape(x)
    return ctx.emit(graph.SliceOp(x, [*[0] * len(outer), start], [*outer, count]))


def after_past(ctx: NodeContext, past: SSAValue | None, new: SSAValue) -> SSAValue:
    """Append keys or values [batch, heads, length, size] to those of earlier steps."""
    if past is None:
        return new
    own, earlier = list(ctx.shape(new)), list(ctx.shape(past))
    fits = len(earlier) == 4 and earlier[:2] + earlier[3:] == own[:2] + own[3:]
    ctx.check(fits, f"the past {earlier} does not fit {own}")
    return new if earlier[2] == 0 else ctx.emit(graph.ConcatOp([past, new], axis=2))


def added_where(ctx: NodeContext, kept: SSAValue, x: SSAValue, value: float) -> SSAValue:
    """Return 0 where a condition holds and a value elsewhere, in the element type of x."""
    return ctx.emit(graph.SelectOp(kept, ctx.literal(0.0, x), ctx.literal(value, x)))


def causal(
    ctx: NodeContext,
    x: SSAValue,
    length: int,
    total: int,
    window: int | None = None,
    *,
    repeats: int = 1,
    past: SSAValue | int | None = None,
) -> SSAValue:
    """Return the causal mask of the last `length` of `total` positions, computed from indices.

    Args:
        x: tensor with the element type of the mask.
        window: number of positions, up to its own, that each may attend to.
        repeats: number of times that the rows are repeated, one after the other.
        past: position of the first row, a number or for each sequence, i64 [batch]; by default
            total - length.

    Returns:
        The mask [repeats * length, total]; [batch, 1, repeats * length, total] if the first
        position differs.
    """
    dtype = ctx.builder.dtype_of(x)
    least = float(np.finfo(dtype).min) if dtype.kind == "f" else -3e38
    own = row_positions(ctx, length, total - length if past is None else past, repeats)
    other = ctx.positions(total)
    kept = ctx.emit(graph.CompareOp(other, own, predicate="le"))
    if window is not None:
        end = ctx.emit(graph.SubOp(own, ctx.literal(window, own)))
        kept = ctx.emit(graph.AndOp(kept, ctx.emit(graph.CompareOp(other, end, predicate="gt"))))
    return added_where(ctx, kept, x, least)


def row_positions(
    ctx: NodeContext, length: int, past: SSAValue | int, repeats: int = 1
) -> SSAValue:
    """Return the positions of the rows of `causal`, [repeats * length, 1] or [batch, 1, ..., 1]."""
    each = isinstance(past, SSAValue)
    own = reshaped(ctx, ctx.positions(length, start=0 if each else past), (1, length))
    if repeats > 1:
        own = ctx.emit(graph.BroadcastToOp(own, (repeats, length)))
    own = reshaped(ctx, own, (repeats * length, 1))
    if not each:
        return own
    return ctx.emit(graph.AddOp(own, reshaped(ctx, past, (ctx.shape(past)[0], 1, 1, 1))))


def by_groups(ctx: NodeContext, x: SSAValue, groups: int) -> SSAValue:
    """Convert [batch, heads, length, size] to [batch, groups, heads / groups * length, size].

    Heads that share keys and values become rows of one product, so that the shared ones are not
    replicated.
    """
    batch, heads, length, size = ctx.shape(x)
    ctx.check(0 < groups <= heads and heads % groups == 0, f"{heads} heads in {groups} groups")
    return reshaped(ctx, x, (batch, groups, heads // groups * length, size))


def _summand_by_groups(
    ctx: NodeContext, summand: SSAValue, heads: int, groups: int, length: int
) -> SSAValue:
    """Convert a tensor that broadcasts against scores [batch, heads, length, total] to groups."""
    lead = 4 - ctx.rank(summand)
    ctx.check(lead >= 0, "a mask or bias should have at most four dimensions")
    batch, own, rows, total = (*[1] * lead, *ctx.shape(summand))
    if own == 1 and rows == 1:
        return summand
    repeats = heads // groups
    if own == 1:
        one = reshaped(ctx, summand, (batch, 1, rows, total))
        wide = ctx.emit(graph.BroadcastToOp(one, (batch, repeats, rows, total)))
        return reshaped(ctx, wide, (batch, 1, repeats * rows, total))
    whole = ctx.emit(graph.BroadcastToOp(summand, (batch, own, length, total)))
    return by_groups(ctx, whole, groups)


def attended(
    ctx: NodeContext,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    summands: list[SSAValue],
    *,
    softcap: float = 0.0,
    mask: SSAValue | None = None,
) -> SSAValue:
    """Compute softmax(query @ key^T * scale + summands) @ value; the attribute `scale` is optional.

    Args:
        query: [batch, heads, length, size].
        key, value: [batch, groups, total, size]; heads / groups successive heads share a group.
        summands: broadcast against the scores [batch, heads, length, total].
        softcap: bound on scores, applied by tanh; 0 for none.
        mask: added to the scores by groups, [batch, groups, heads / groups * length, total].
    """
    batch, heads, length, size = ctx.shape(query)
    ctx.check(ctx.shape(key)[3] == size, f"keys {list(ctx.shape(key))} are not of size {size}")
    given = ctx.get_float("scale", 0.0)
    scale = given or 1 / math.sqrt(max(size, 1))
    groups = ctx.shape(key)[1]
    if groups != heads:
        query = by_groups(ctx, query, groups)
        summands = [_summand_by_groups(ctx, each, heads, groups, length) for each in summands]
    scores = ctx.emit(graph.MatmulOp(query, key, transpose_b=True))
    scores = ctx.emit(graph.MulOp(scores, ctx.literal(scale, scores)))
    if softcap:
        capped = ctx.emit(graph.DivOp(scores, ctx.literal(softcap, scores)))
        capped = ctx.emit(graph.TanhOp(capped))
        scores = ctx.emit(graph.MulOp(capped, ctx.literal(softcap, scores)))
    shape = ctx.shape(scores)
    for summand in summands if mask is None else [*summands, mask]:
        scores = ctx.emit(graph.AddOp(scores, summand))
    fits = ctx.shape(scores) == shape
    ctx.check(fits, f"a mask or bias does not broadcast to scores of {list(shape)}")
    result = ctx.emit(graph.MatmulOp(ctx.emit(graph.SoftmaxOp(scores, axis=3)), value))
    return reshaped(ctx, result, (batch, heads, length, ctx.shape(value)[3]))
