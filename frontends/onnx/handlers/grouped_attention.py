"""Handlers of rotary embeddings, and of attention whose keys and values are shared by groups of
heads, as in exported language models.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.caches import cache_of
from tcopt.frontends.onnx.handlers.heads import (
    attended,
    causal,
    columns,
    join_heads,
    split_heads,
)
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.arithmetic.sizes import upper_bound


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


@handler("com.microsoft.GroupQueryAttention")
def group_query_attention(ctx: NodeContext) -> list[SSAValue | None]:
    """Causal attention with past keys and values, which groups of heads share.

    Positions and masks are computed from indices: the lengths may be sizes, and the values of
    `seqlens_k` and `total_sequence_length` are only needed when the program runs.
    """
    _refuse_unhandled(ctx)
    heads, groups = ctx.get_int("num_heads"), ctx.get_int("kv_num_heads")
    ctx.check(0 < groups <= heads and heads % groups == 0, f"{heads} heads in {groups} groups")
    query, key, value = _projections(ctx, heads, groups)
    batch, _, length, _ = ctx.shape(query)
    cache = cache_of(ctx, ctx.optional_input(3), batch, length)
    if ctx.get_bool("do_rotary"):
        places = ctx.optional_input(9)
        rows = _tables(
            ctx, cache.positions(ctx) if places is None else places, (ctx.input(7), ctx.input(8))
        )
        turn = ctx.get_bool("rotary_interleaved")
        query = rotated(ctx, query, *rows, interleaved=turn)
        key = rotated(ctx, key, *rows, interleaved=turn)
    keys, present_key = cache.extended(ctx, ctx.optional_input(3), key)
    values, present_value = cache.extended(ctx, ctx.optional_input(4), value)
    window = ctx.get_int("local_window_size")
    most = None if not 0 <= window < upper_bound(cache.total) else window
    mask = None
    if length != 1 or most is not None or cache.past is not None:
        mask = causal(
            ctx, query, length, cache.total, most, repeats=heads // groups, past=cache.past
        )
    bias = ctx.optional_input(10)
    result = attended(
        ctx,
        query,
        keys,
        values,
        [] if bias is None else [bias],
        softcap=ctx.get_float("softcap"),
        mask=mask,
    )
    return [join_heads(ctx, result), present_key, present_value]
