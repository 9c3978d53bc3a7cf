"""Handlers of normalisations that onnxruntime's optimiser has fused with sums and embeddings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.normalization import layer_normalized, like_data
from tcopt.frontends.onnx.handlers.quantization import dequantized
from tcopt.frontends.onnx.handlers.shaping import reshaped, transposed


def _skipped(ctx: NodeContext, bias: SSAValue | None) -> SSAValue:
    """Return the sum of data, residual and bias."""
    x, skip = ctx.input(0), ctx.input(1)
    total = ctx.emit(graph.AddOp(x, skip))
    ctx.check(
        ctx.shape(total) == ctx.shape(x),
        f"skip {list(ctx.shape(skip))} does not broadcast to {list(ctx.shape(x))}",
    )
    return total if bias is None else ctx.emit(graph.AddOp(total, bias))


@handler("com.microsoft.SkipLayerNormalization")
def skip_layer_normalization(ctx: NodeContext) -> list[SSAValue | None]:
    """Layer normalisation of a sum, its statistics, and the sum."""
    total = _skipped(ctx, ctx.optional_input(4))
    axis = ctx.rank(total) - 1
    return [*layer_normalized(ctx, total, ctx.input(2), ctx.optional_input(3), axis), total]


@handler("com.microsoft.SkipSimplifiedLayerNormalization")
def skip_rms_normalization(ctx: NodeContext) -> list[SSAValue | None]:
    """RMS normalisation of a sum, and the sum."""
    if ctx.output_used(1) or ctx.output_used(2):
        ctx.unsupported(f"the statistics outputs of {ctx.op_type} are not supported")
    total = _skipped(ctx, ctx.optional_input(3))
    epsilon = ctx.get_float("epsilon")
    normal = graph.RmsNormOp(total, ctx.input(2), axis=ctx.rank(total) - 1, epsilon=epsilon)
    return [ctx.emit(normal), None, None, total]


def _rows(ctx: NodeContext, table: SSAValue, places: SSAValue, what: str) -> SSAValue:
    """Look up rows of an embedding table."""
    ctx.check(ctx.rank(table) == 2, f"the {what} embedding should be a matrix")
    ctx.require(places, 0, ctx.shape(table)[0] - 1, f"{what} indices")
    return ctx.emit(graph.GatherOp(table, places, axis=0))


def _first_rows(ctx: NodeContext, table: SSAValue, count: int) -> SSAValue:
    """Return the embeddings of default positions: the first rows of the table."""
    ctx.check(
        ctx.rank(table) == 2 and count <= ctx.shape(table)[0],
        f"the position embedding {list(ctx.shape(table))} has no {count} rows",
    )
    return ctx.emit(graph.SliceOp(table, [0, 0], [count, ctx.shape(table)[1]]))


Real = Callable[[SSAValue, int], SSAValue]
"""Function that converts the input of an index, or rows of it, to floats."""


def _embedded(
    ctx: NodeContext, positions: SSAValue | None, real: Real
) -> tuple[SSAValue, SSAValue, SSAValue | None]:
    """Sum embeddings of words, positions and segments, and normalise the sum.

    Args:
        positions: indices into the position embedding; None for 0, 1, 2 and so on.
    Returns:
        The normalised sum; the sum; and, if that output is used, the number of words that the mask
        allows in each row.
    """
    ids, segments = ctx.input(0), ctx.optional_input(1)
    ctx.check(ctx.rank(ids) == 2, "input_ids should be a matrix")
    total = real(_rows(ctx, ctx.input(2), ids, "word"), 2)
    table, (batch, length) = ctx.input(3), ctx.shape(ids)
    if positions is not None:
        own = _rows(ctx, table, positions, "position")
    else:
        own = _first_rows(ctx, table, length)
    total = ctx.emit(graph.AddOp(total, real(own, 3)))
    if segments is not None:
        rows = _rows(ctx, ctx.input(4), segments, "segment")
        total = ctx.emit(graph.AddOp(total, real(rows, 4)))
    scale, bias = (real(ctx.input(index), index) for index in (5, 6))
    normal, *_ = layer_normalized(ctx, total, scale, bias, 2)
    assert normal is not None
    return normal, total, _mask_index(ctx, batch) if ctx.output_used(1) else None


@handler("com.microsoft.EmbedLayerNormalization")
def embed_layer_normalization(ctx: NodeContext) -> list[SSAValue | None]:
    """Normalised sum of the embeddings of words, positions and segments; the number of words that
    the mask allows in each row; and the sum.
    """
    normal, total, kept = _embedded(ctx, ctx.optional_input(8), lambda value, _: value)
    return [normal, kept, total]


@handler("com.microsoft.QEmbedLayerNormalization")
def quantized_embed_layer_normalization(ctx: NodeContext) -> list[SSAValue | None]:
    """EmbedLayerNormalization of 8-bit tables; only rows that are read are dequantised."""

    def real(value: SSAValue, index: int) -> SSAValue:
        # Scales and zero points of inputs 2 to 6 are inputs 8 to 12 and 13 to 17.
        return dequantized(ctx, value, ctx.input(index + 6), ctx.input(index + 11))

    normal, _, kept = _embedded(ctx, None, real)
    return [normal, kept]


def _mask_index(ctx: NodeContext, batch: int) -> SSAValue:
    mask = ctx.optional_input(7)
    if mask is None:
        return ctx.splat((batch,), np.int32(0))
    kept = ctx.emit(graph.CompareOp(mask, ctx.literal(1, mask), predicate="eq"))
    return ctx.emit(graph.ReduceOp(cast(ctx, kept, i32), kind="sum", axes=[1], keepdims=False))


def _group_normalized(ctx: NodeContext, x: SSAValue) -> SSAValue:
    """Normalise groups of channels, followed by SiLU if requested."""
    rank, last = ctx.rank(x), ctx.get_bool("channels_last")
    ctx.check(rank >= 3, "data should have a batch, channels and spatial dimensions")
    ctx.check(ctx.get_int("activation") in (0, 1), "activation should be 0 or 1")
    plain = transposed(ctx, x, [0, rank - 1, *range(1, rank - 1)]) if last else x
    channels, groups = ctx.shape(plain)[1], ctx.get_int("groups")
    ctx.check(
        groups > 0 and channels % groups == 0, f"{channels} channels do not split into {groups}"
    )
    scale, bias = (like_data(ctx, ctx.input(index), x) for index in (1, 2))
    epsilon = ctx.get_float("epsilon")
    result = ctx.emit(graph.GroupNormOp(plain, scale, bias, groups=groups, epsilon=epsilon))
    if ctx.get_bool("activation"):
        result = ctx.emit(graph.SiluOp(result))
    return transposed(ctx, result, [0, *range(2, rank), 1]) if last else result


@handler("com.microsoft.GroupNorm")
def group_norm(ctx: NodeContext) -> SSAValue:
    """Group normalisation with channels first or last."""
    return _group_normalized(ctx, ctx.input(0))


@handler("com.microsoft.SkipGroupNorm")
def skip_group_norm(ctx: NodeContext) -> list[SSAValue | None]:
    """GroupNorm of a sum; and the sum."""
    x, skip, bias = ctx.input(0), ctx.input(3), ctx.optional_input(4)
    if not ctx.get_bool("channels_last"):
        ctx.unsupported("SkipGroupNorm with channels_last=0 is not supported")
    shape = ctx.shape(skip)
    if len(shape) == 2:
        skip = reshaped(ctx, skip, (shape[0], *[1] * (ctx.rank(x) - 2), shape[1]))
    total = ctx.emit(graph.AddOp(x, skip))
    if bias is not None:
        total = ctx.emit(graph.AddOp(total, bias))
    return [_group_normalized(ctx, total), total]
