"""Handler of ONNX's own Attention whose heads share keys and values."""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.heads import (
    after_past,
    attended,
    causal,
    join_heads,
    row_positions,
    split_heads,
)


@handler("Attention", since=23)
def shared_attention(ctx: NodeContext) -> list[SSAValue | None] | None:
    """Attention with a past, or a cache of which the first rows are used, without other masks.

    ONNX's function, which serves the other forms, replicates shared keys and values for each head.
    """
    operands = _by_heads(ctx)
    if operands is None or not _is_served(ctx):
        return None
    query, key, value = operands
    _, heads, length, _ = ctx.shape(query)
    groups = ctx.shape(key)[1]
    ctx.check(0 < groups <= heads and heads % groups == 0, f"{heads} heads in {groups} groups")
    if groups == heads:
        return None
    past, used = ctx.optional_input(4), ctx.optional_input(6)
    key, value = after_past(ctx, past, key), after_past(ctx, ctx.optional_input(5), value)
    total = ctx.shape(key)[2]
    first: SSAValue | int = 0 if past is None else ctx.shape(past)[2]
    if used is not None:
        first = ctx.emit(graph.AddOp(cast(ctx, used, i64), ctx.sizes([-length])))
    mask = None
    if ctx.get_bool("is_causal"):
        mask = causal(ctx, query, length, total, repeats=heads // groups, past=first)
    result = attended(ctx, query, key, value, [], mask=mask)
    if used is not None:
        # A row before the first position attends to nothing.
        own = row_positions(ctx, length, first)
        counts = ctx.emit(graph.CompareOp(own, ctx.literal(0, own), predicate="ge"))
        result = ctx.emit(graph.SelectOp(counts, result, ctx.literal(0.0, result)))
    if ctx.rank(ctx.input(0)) == 3:
        result = join_heads(ctx, result)
    return [result, key, value]


def _is_served(ctx: NodeContext) -> bool:
    """Whether the node has no other mask, and no result or setting that is not served."""
    if ctx.optional_input(3) is not None or ctx.output_used(3) or ctx.has("softmax_precision"):
        return False
    if any(ctx.get_int(f"{side}_window_size", -1) >= 0 for side in ("left", "right")):
        return False
    # Without a causal mask, rows after the used ones of a cache would need another one.
    is_masked = ctx.optional_input(6) is None or ctx.get_bool("is_causal")
    return is_masked and not ctx.get_float("softcap", 0.0)


def _by_heads(ctx: NodeContext) -> list[SSAValue] | None:
    """Return queries, keys and values by heads; None if the numbers of heads are missing."""
    operands = [ctx.input(place) for place in range(3)]
    if ctx.rank(operands[0]) == 4:
        return operands
    heads, groups = ctx.get_int("q_num_heads", 0), ctx.get_int("kv_num_heads", 0)
    if not heads or not groups:
        return None
    counts = (heads, groups, groups)
    return [split_heads(ctx, x, count) for x, count in zip(operands, counts, strict=True)]
