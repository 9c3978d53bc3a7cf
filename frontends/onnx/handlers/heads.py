"""Multi-head attention helpers shared by onnxruntime's attention operators."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.handlers.shaping import reshaped, transposed
from tcopt.support.arithmetic.sizes import is_fixed

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
    ctx: NodeContext, x: SSAValue, length: int, total: int, window: int | None = None
) -> SSAValue:
    """Return the causal mask of the last `length` of `total` positions, [length, total].

    Args:
        window: number of positions, up to its own, that each may attend to.
    """
    dtype = ctx.builder.dtype_of(x)
    least = float(np.finfo(dtype).min) if dtype.kind == "f" else -3e38
    if not is_fixed((length, total)):
        return added_where(ctx, _earlier(ctx, length, total, window), x, least)
    ctx.builder.check_made(length, total)
    own = np.arange(total - length, total)[:, None]
    other = np.arange(total)
    kept = other <= own
    if window is not None:
        kept &= other > own - window
    return ctx.array(np.where(kept, 0.0, least).astype(dtype))


def _earlier(ctx: NodeContext, length: int, total: int, window: int | None) -> SSAValue:
    """Return the condition of `causal`, computed when the program runs."""
    own = reshaped(ctx, ctx.positions(length, start=total - length), (length, 1))
    other = ctx.positions(total)
    kept = ctx.emit(graph.CompareOp(other, own, predicate="le"))
    if window is None:
        return kept
    first = ctx.emit(graph.SubOp(own, ctx.literal(window, own)))
    return ctx.emit(graph.AndOp(kept, ctx.emit(graph.CompareOp(other, first, predicate="gt"))))


def attended(
    ctx: NodeContext,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    summands: list[SSAValue],
    *,
    softcap: float = 0.0,
) -> SSAValue:
    """Compute softmax(query @ key^T * scale + summands) @ value; the attribute `scale` is optional.

    Args:
        query, key, value: [batch, heads, length, size].
        summands: broadcast against the scores [batch, heads, length, total].
        softcap: bound on scores, applied by tanh; 0 for none.
    """
    size = ctx.shape(query)[3]
    ctx.check(ctx.shape(key)[3] == size, f"keys {list(ctx.shape(key))} are not of size {size}")
    given = ctx.get_float("scale", 0.0)
    scale = given or 1 / math.sqrt(max(size, 1))
    scores = ctx.emit(graph.MatmulOp(query, key, transpose_b=True))
    scores = ctx.emit(graph.MulOp(scores, ctx.literal(scale, scores)))
    if softcap:
        capped = ctx.emit(graph.DivOp(scores, ctx.literal(softcap, scores)))
        capped = ctx.emit(graph.TanhOp(capped))
        scores = ctx.emit(graph.MulOp(capped, ctx.literal(softcap, scores)))
    shape = ctx.shape(scores)
    for summand in summands:
        scores = ctx.emit(graph.AddOp(scores, summand))
    fits = ctx.shape(scores) == shape
    ctx.check(fits, f"a mask or bias does not broadcast to scores of {list(shape)}")
    return ctx.emit(graph.MatmulOp(ctx.emit(graph.SoftmaxOp(scores, axis=3)), value))
