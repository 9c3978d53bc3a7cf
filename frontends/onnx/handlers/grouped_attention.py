"""Handlers of rotary embeddings, and of attention whose keys and values are shared by groups of
heads, as in exported language models.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.heads import (
    attended,
    causal,
    columns,
    join_heads,
    split_heads,
)
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.arithmetic.sizes import is_fixed


def _tables(
    ctx: NodeContext, places: SSAValue, caches: tuple[SSAValue, SSAValue]
) -> tuple[SSAValue, SSAValue]:
    """Look up cosines and sines of positions [batch, length]: [batch, 1, length, width]."""
    batch, length = ctx.shape(places)
    rows: list[SSAValue] = []
    for cache in caches:
        ctx.check(ctx.rank(cache) == 2, "a cache of cosines or sines should be a matrix")
        found = ctx.emit(graph.GatherOp(cache, places, axis=0))
        rows.append(reshaped(ctx, found, (batch, 1, length, ctx.shape(cache)[1])))
    ctx.require(places, 0, ctx.shape(caches[0])[0] - 1, "positions")
    return rows[0], rows[1]


def _pairs(ctx: NodeContext, x: SSAValue, interleaved: bool) -> tuple[SSAValue, SSAValue]:
    """Return the elements that are rotated together: neighbours, or elements of two halves."""
    *outer, size = ctx.shape(x)
    half, zeros = size // 2, [0] * len(outer)
    if not interleaved:
        return columns(ctx, x, 0, half), columns(ctx, x, half, half)
    paired = reshaped(ctx, x, (*outer, half, 2))
    first, second = (
        ctx.emit(graph.SliceOp(paired, [*zeros, 0, n], [*outer, half, 1])) for n in range(2)
    )
    return reshaped(ctx, first, (*outer, half)), reshaped(ctx, second, (*outer, half))


def rotated(
    ctx: NodeContext, x: SSAValue, cos: SSAValue, sin: SSAValue, *, interleaved: bool
) -> SSAValue:
    """Rotate the first elements of x [batch, heads, length, size] in pairs."""
    batch, heads, length, size = ctx.shape(x)
    half = ctx.shape(cos)[-1]
    ctx.check(
        2 * half <= size and ctx.shape(sin) == ctx.shape(cos),
        f"{half} cosines and {ctx.shape(sin)[-1]} sines do not fit heads of size {size}",
    )
    turned = x if 2 * half == size else columns(ctx, x, 0, 2 * half)
    first, second = _pairs(ctx, turned, interleaved)

    def combined(a: SSAValue, b: SSAValue, op: type[graph.AddOp] | type[graph.SubOp]) -> SSAValue:
        left, right = ctx.emit(graph.MulOp(a, cos)), ctx.emit(graph.MulOp(b, sin))
        return ctx.emit(op(left, right))

    parts = [combined(first, second, graph.SubOp), combined(second, first, graph.AddOp)]
    shape = (batch, heads, length, half)
    if interleaved:
        columns_of = [reshaped(ctx, part, (*shape, 1)) for part in parts]
        both = ctx.emit(graph.ConcatOp(columns_of, axis=4))
        parts = [reshaped(ctx, both, (*shape[:3], 2 * half))]
    if 2 * half < size:
        parts.append(columns(ctx, x, 2 * half, size - 2 * half))
    return parts[0] if len(parts) == 1 else ctx.emit(graph.ConcatOp(parts, axis=3))


@handler("com.microsoft.RotaryEmbedding")
def rotary_embedding(ctx: NodeContext) -> SSAValue:
    """Rotary embedding: heads are rotated by angles that depend on positions."""
    x, places = ctx.input(0), ctx.input(1)
    cos, sin = ctx.input(2), ctx.input(3)
    ctx.check(ctx.rank(x) in (3, 4), "data should have three dimensions or four")
    if ctx.get_bool("is_packed_batching"):
        ctx.unsupported("RotaryEmbedding with is_packed_batching=1 is not supported")
    heads = ctx.get_int("num_heads")
    if not heads and ctx.rank(x) == 3:
        heads = ctx.shape(x)[2] // max(2 * ctx.shape(cos)[-1], 1)
    by_heads = x if ctx.rank(x) == 4 else split_heads(ctx, x, heads)
    batch, _, length, _ = ctx.shape(by_heads)
    if ctx.shape(places) == (1,):
        steps = reshaped(ctx, ctx.positions(length, places), (1, length))
        row = ctx.emit(graph.AddOp(steps, reshaped(ctx, places, (1, 1))))
        places = ctx.emit(graph.BroadcastToOp(row, (batch, length)))
    ctx.check(ctx.shape(places) == (batch, length), "position_ids should be [batch, length]")
    rows = _tables(ctx, places, (cos, sin))
    result = rotated(ctx, by_heads, *rows, interleaved=ctx.get_bool("interleaved"))
    return result if by_heads is x else join_heads(ctx, result)


def _refuse_unhandled(ctx: NodeContext) -> None:
    """Raise UnsupportedError for features that are not supported."""
    names = {11: "head_sink", 12: "k_scale", 13: "v_scale", 14: "q_norm_weight"}
    for index, name in names.items():
        if ctx.optional_input(index) is not None:
            ctx.unsupported(f"GroupQueryAttention with {name} is not supported")
    for name in ("qk_output", "sliding_window_cache", "kv_cache_bit_width"):
        if ctx.get_int(name):
            ctx.unsupported(f"GroupQueryAttention with {name} is not supported")
    if ctx.get_int("smooth_softmax") == 1:
        ctx.unsupported("GroupQueryAttention with smooth_softmax=1 is not supported")
    if not ctx.get_bool("causal"):
        ctx.unsupported("GroupQueryAttention with causal=0 is not supported")


def _projections(ctx: NodeContext, heads: int, groups: int) -> list[SSAValue]:
    """Return queries, keys and values by heads; keys and values may be packed after the queries."""
    query, key, value = ctx.input(0), ctx.optional_input(1), ctx.optional_input(2)
    if key is not None and value is not None:
        shared = (split_heads(ctx, v, groups) for v in (key, value))
        return [split_heads(ctx, query, heads), *shared]
    width, count = ctx.shape(query)[-1], heads + 2 * groups
    ctx.check(width % count == 0, f"{width} does not split into {count} heads")
    size = width // count
    counts, starts = (heads, groups, groups), (0, heads, heads + groups)
    return [
        split_heads(ctx, columns(ctx, query, start * size, n * size), n)
        for start, n in zip(starts, counts, strict=True)
    ]


def _with_past(
    ctx: NodeContext, past: SSAValue | None, new: SSAValue, total: int
) -> tuple[SSAValue, SSAValue]:
    """Return keys or values of all `total` positions, and the present output.

    The latter is zero-padded if the past's buffer is longer, as in onnxruntime without buffer
    sharing.
    """
    length = ctx.shape(new)[2]
    if past is None or ctx.shape(past)[2] == 0:
        return new, new
    batch, heads, room, size = ctx.shape(past)
    earlier = total - length
    ctx.check(earlier <= room, f"the past has {room} positions, but {earlier} are used")
    parts = [new]
    if earlier:
        head = ctx.emit(graph.SliceOp(past, [0, 0, 0, 0], [batch, heads, earlier, size]))
        parts = [head, new]
    whole = ctx.emit(graph.ConcatOp(parts, axis=2)) if earlier else new
    if room <= total:
        return whole, whole
    zero = ctx.builder.dtype_of(new).type(0)
    rest = ctx.splat((batch, heads, room - total, size), zero)
    return whole, ctx.emit(graph.ConcatOp([whole, rest], axis=2))


def _grouped(ctx: NodeContext, x: SSAValue, heads: int) -> SSAValue:
    """Repeat keys or values of groups for each head."""
    batch, groups, total, size = ctx.shape(x)
    if groups == heads:
        return x
    wide = (batch, groups, heads // groups, total, size)
    one = reshaped(ctx, x, (batch, groups, 1, total, size))
    return reshaped(ctx, ctx.emit(graph.BroadcastToOp(one, wide)), (batch, heads, total, size))


@handler("com.microsoft.GroupQueryAttention")
def group_query_attention(ctx: NodeContext) -> list[SSAValue | None]:
    """Causal attention with past keys and values; all rows have the same length.

    In the first step, without a past, rows may be shorter: elements after their end are unused.
    """
    _refuse_unhandled(ctx)
    heads, groups = ctx.get_int("num_heads"), ctx.get_int("kv_num_heads")
    ctx.check(0 < groups <= heads and heads % groups == 0, f"{heads} heads in {groups} groups")
    query, key, value = _projections(ctx, heads, groups)
    batch, _, length, _ = ctx.shape(query)
    total = ctx.constant_int(6, "total_sequence_length")
    ctx.check(total >= length, f"total_sequence_length {total} is less than {length} new positions")
    ctx.require(ctx.input(5), 0 if total == length else total - 1, total - 1, "seqlens_k")
    if ctx.get_bool("do_rotary"):
        places = ctx.optional_input(9)
        if places is None:
            own = ctx.positions(length, start=total - length)
            known, shape = ctx.known(own), (batch, length)
            places = ctx.emit(graph.BroadcastToOp(own, shape))
            if known is not None and is_fixed(shape):
                places = ctx.array(np.broadcast_to(known, shape).copy())
        rows = _tables(ctx, places, (ctx.input(7), ctx.input(8)))
        turn = ctx.get_bool("rotary_interleaved")
        query = rotated(ctx, query, *rows, interleaved=turn)
        key = rotated(ctx, key, *rows, interleaved=turn)
    keys, present_key = _with_past(ctx, ctx.optional_input(3), key, total)
    values, present_value = _with_past(ctx, ctx.optional_input(4), value, total)
    ctx.check(ctx.shape(keys)[2] == total, f"there are {ctx.shape(keys)[2]} keys, not {total}")
    window = ctx.get_int("local_window_size")
    bias = ctx.optional_input(10)
    summands = [] if bias is None else [bias]
    if length > 1 or 0 <= window < total:
        summands.append(causal(ctx, query, length, total, None if window < 0 else window))
    wide_keys, wide_values = (_grouped(ctx, v, heads) for v in (keys, values))
    softcap = ctx.get_float("softcap")
    result = attended(ctx, query, wide_keys, wide_values, summands, softcap=softcap)
    return [join_heads(ctx, result), present_key, present_value]
