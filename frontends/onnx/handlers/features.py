"""Operators on features of classical machine learning (ai.onnx.ml) that are tensor operators."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context import NodeContext
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.indexing import check_range
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.frontends.onnx.registry import handler


@handler("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(ctx: NodeContext) -> SSAValue:
    """Places along the last axis; a vector is one row."""
    x, places = ctx.input(0), ctx.input(1)
    ctx.check(ctx.rank(x) >= 1, "there is nothing to take features from")
    check_range(ctx, places, ctx.shape(x)[-1])
    count = int(np.prod(ctx.shape(places)))
    rows = x if ctx.rank(x) > 1 else reshaped(ctx, x, (1, *ctx.shape(x)))
    return ctx.emit(graph.GatherOp(rows, reshaped(ctx, places, (count,)), axis=ctx.rank(rows) - 1))


@handler("ai.onnx.ml.Binarizer")
def binarizer(ctx: NodeContext) -> SSAValue:
    """1 above the threshold, 0 elsewhere."""
    x = ctx.input(0)
    above = ctx.emit(graph.CompareOp(x, ctx.literal(ctx.get_float("threshold"), x), predicate="gt"))
    return cast(ctx, above, ctx.element(x))
