"""Handlers of onnxruntime's fused attention operators."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.heads import (
    MASKED_BY_DEFAULT,
    added_where,
    after_past,
    attended,
    causal,
    columns,
    join_heads,
    split_heads,
)
from tcopt.frontends.onnx.handlers.integer_products import one_or_columns, real_product
from tcopt.frontends.onnx.handlers.matrix import product
from tcopt.frontends.onnx.handlers.quantization import scalar
from tcopt.frontends.onnx.handlers.shaping import reshaped, transposed


def _compared(ctx: NodeContext, mask: SSAValue, total: int, predicate: str) -> SSAValue:
    """Compare positions of keys with a limit per row; the result is [batch, 1, 1, total]."""
    limit = reshaped(ctx, mask, (*ctx.shape(mask), 1, 1, 1))
    return ctx.emit(graph.CompareOp(ctx.positions(total, mask), limit, predicate=predicate))


def _kept(ctx: NodeContext, mask: SSAValue, batch: int, length: int, total: int) -> SSAValue:
    """Return the keys that a mask allows: it has the end of each row, its end and start, or an
    entry per key, shared by all queries or for each query.
    """
    shape = ctx.shape(mask)
    if shape == (batch,):
        return _compared(ctx, mask, total, "lt")
    if shape == (2 * batch,):
        end, start = (ctx.emit(graph.SliceOp(mask, [place * batch], [batch])) for place in range(2))
        kept = _compared(ctx, end, total, "lt")
        return ctx.emit(graph.AndOp(kept, _compared(ctx, start, total, "ge")))
    if shape not in ((batch, total), (batch, length, total)):
        ctx.unsupported(f"a mask of {list(shape)} for {[batch, length, total]} is not supported")
    place = ctx.emit(graph.CompareOp(mask, ctx.literal(0, mask), predicate="gt"))
    return reshaped(ctx, place, (batch, 1, *([1] if len(shape) == 2 else []), *shape[1:]))


def _summands(
    ctx: NodeContext, query: SSAValue, key: SSAValue, mask: SSAValue | None, bias: SSAValue | None
) -> list[SSAValue]:
    """Return the tensors added to scores: the mask, the causal mask, and a bias."""
    batch, _, length, _ = ctx.shape(query)
    total = ctx.shape(key)[2]
    found: list[SSAValue] = []
    if mask is not None:
        value = ctx.get_float("mask_filter_value", MASKED_BY_DEFAULT)
        kept = _kept(ctx, mask, batch, length, total)
        found.append(added_where(ctx, kept, query, value))
    if ctx.get_bool("unidirectional"):
        found.append(causal(ctx, query, length, total))
    return found if bias is None else [*found, bias]


def _refuse(ctx: NodeContext, inputs: dict[int, str], *attributes: str) -> None:
    """Raise UnsupportedError if an unsupported input or attribute is present."""
    for index, name in inputs.items():
        if ctx.optional_input(index) is not None:
            ctx.unsupported(f"{ctx.op_type} with {name} is not supported")
    for name in attributes:
        if ctx.get_int(name, 0):
            ctx.unsupported(f"{ctx.op_type} with {name}={ctx.get_int(name)} is not supported")


@handler("com.microsoft.Attention")
def attention(ctx: NodeContext) -> list[SSAValue | None]:
    """Self-attention with one weight matrix for the projections of queries, keys and values."""
    _refuse(ctx, {6: "past_sequence_length"}, "do_rotary", "past_present_share_buffer")
    x, weights, bias = ctx.input(0), ctx.input(1), ctx.optional_input(2)
    ctx.check(ctx.rank(weights) == 2, "weights should be a matrix")
    width = ctx.shape(weights)[1]
    widths = ctx.get_ints("qkv_hidden_sizes") or [width // 3] * 3
    ctx.check(
        len(widths) == 3 and sum(widths) == width and min(widths) > 0,
        f"{width} columns of weights are not queries, keys and values of {widths}",
    )
    total = product(ctx, x, weights)
    total = total if bias is None else ctx.emit(graph.AddOp(total, bias))
    mask, past, score_bias = (ctx.optional_input(place) for place in (3, 4, 5))
    return _self_attention(ctx, total, widths, mask, past, score_bias)


@handler("com.microsoft.QAttention")
def quantized_attention(ctx: NodeContext) -> list[SSAValue | None]:
    """Self-attention whose projections are a product of quantised tensors."""
    _refuse(ctx, {}, "do_rotary", "past_present_share_buffer")
    weights = ctx.input(1)
    ctx.check(ctx.rank(weights) == 2, "weights should be a matrix")
    width = ctx.shape(weights)[1]
    ctx.check(width % 3 == 0, f"{width} columns of weights are not queries, keys and values")
    zero = one_or_columns(ctx, ctx.optional_input(6))
    x = (ctx.input(0), scalar(ctx, ctx.input(3)), zero)
    w = (weights, scalar(ctx, ctx.input(4)), one_or_columns(ctx, ctx.optional_input(7)))
    total = real_product(ctx, x, w, ctx.input(2))
    mask, past = ctx.optional_input(5), ctx.optional_input(8)
    return _self_attention(ctx, total, [width // 3] * 3, mask, past, None)


def _self_attention(
    ctx: NodeContext,
    total: SSAValue,
    widths: Sequence[int],
    mask: SSAValue | None,
    past: SSAValue | None,
    score_bias: SSAValue | None,
) -> list[SSAValue | None]:
    """Attention on projections, whose columns are queries, keys and values of `widths`.

    Returns:
        The result; and, if that output is used, keys and values including past ones.
    """
    heads = ctx.get_int("num_heads")
    starts = (0, widths[0], widths[0] + widths[1])
    query, key, value = (
        split_heads(ctx, columns(ctx, total, start, count), heads)
        for start, count in zip(starts, widths, strict=True)
    )
    present = None
    if past is not None:
        ctx.check(ctx.rank(past) == 5 and ctx.shape(past)[0] == 2, "past should be keys and values")
        shape = ctx.shape(past)
        halves = [
            reshaped(
                ctx, ctx.emit(graph.SliceOp(past, [n, 0, 0, 0, 0], [1, *shape[1:]])), shape[1:]
            )
            for n in range(2)
        ]
        key, value = after_past(ctx, halves[0], key), after_past(ctx, halves[1], value)
    if ctx.output_used(1):
        both = [reshaped(ctx, v, (1, *ctx.shape(v))) for v in (key, value)]
        present = ctx.emit(graph.ConcatOp(both, axis=0))
    summands = _summands(ctx, query, key, mask, score_bias)
    return [join_heads(ctx, attended(ctx, query, key, value, summands)), present]


def _packed(ctx: NodeContext, x: SSAValue, place: int) -> SSAValue:
    """Extract a part [batch, heads, length, size] of [batch, length, heads, parts, size]."""
    batch, length, heads, _, size = ctx.shape(x)
    part = ctx.emit(graph.SliceOp(x, [0, 0, 0, place, 0], [batch, length, heads, 1, size]))
    return transposed(ctx, reshaped(ctx, part, (batch, length, heads, size)), [0, 2, 1, 3])


def _by_heads(ctx: NodeContext, x: SSAValue, heads: int) -> SSAValue:
    return x if ctx.rank(x) == 4 else split_heads(ctx, x, heads)


def _operands(ctx: NodeContext, heads: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Return queries, keys and values by heads, from any of their packed forms."""
    query, key, value = ctx.input(0), ctx.optional_input(1), ctx.optional_input(2)
    if key is None:
        if ctx.rank(query) != 5 or ctx.shape(query)[2:4] != (heads, 3):
            ctx.unsupported("MultiHeadAttention without keys is only supported for packed queries")
        return _packed(ctx, query, 0), _packed(ctx, query, 1), _packed(ctx, query, 2)
    query = _by_heads(ctx, query, heads)
    if value is not None:
        return query, _by_heads(ctx, key, heads), _by_heads(ctx, value, heads)
    fits = ctx.rank(key) == 5 and ctx.shape(key)[2:4] == (heads, 2)
    ctx.check(fits, f"keys {list(ctx.shape(key))} do not include the missing values")
    return query, _packed(ctx, key, 0), _packed(ctx, key, 1)


@handler("com.microsoft.MultiHeadAttention")
def multi_head_attention(ctx: NodeContext) -> list[SSAValue | None]:
    """Attention on queries, keys and values that are already projected."""
    _refuse(ctx, {8: "past_sequence_length", 9: "cache_indirection"})
    if ctx.output_used(3):
        ctx.unsupported("the output qk of MultiHeadAttention is not supported")
    heads = ctx.get_int("num_heads")
    parts = [*_operands(ctx, heads)]
    bias = ctx.optional_input(3)
    if bias is not None:
        start = 0
        for place, part in enumerate(parts):
            _, own, _, size = ctx.shape(part)
            slice_of = columns(ctx, bias, start, own * size)
            row = reshaped(ctx, slice_of, (own, 1, size))
            parts[place] = ctx.emit(graph.AddOp(part, row))
            start += own * size
        ctx.check(ctx.shape(bias) == (start,), f"bias should have {start} numbers")
    query, key, value = parts
    key = after_past(ctx, ctx.optional_input(6), key)
    value = after_past(ctx, ctx.optional_input(7), value)
    summands = _summands(ctx, query, key, ctx.optional_input(4), ctx.optional_input(5))
    result = join_heads(ctx, attended(ctx, query, key, value, summands))
    return [result, key, value]
