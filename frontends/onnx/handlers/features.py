"""Handlers of ai.onnx.ml feature operators that can be expressed by tensor operators."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import is_float
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.indexing import check_range
from tcopt.frontends.onnx.handlers.label_encoder import positions
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.data.strings import TEXT


@handler("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(ctx: NodeContext) -> SSAValue:
    """Elements at indices along the last axis; a vector is a single row."""
    x, places = ctx.input(0), ctx.input(1)
    ctx.check(ctx.rank(x) >= 1, "there is nothing to take features from")
    check_range(ctx, places, ctx.shape(x)[-1])
    count = math.prod(ctx.shape(places))
    rows = x if ctx.rank(x) > 1 else reshaped(ctx, x, (1, *ctx.shape(x)))
    return ctx.emit(graph.GatherOp(rows, reshaped(ctx, places, (count,)), axis=ctx.rank(rows) - 1))


@handler("ai.onnx.ml.Binarizer")
def binarizer(ctx: NodeContext) -> SSAValue:
    """1 above the threshold, 0 elsewhere."""
    x = ctx.input(0)
    above = ctx.emit(graph.CompareOp(x, ctx.literal(ctx.get_float("threshold"), x), predicate="gt"))
    return cast(ctx, above, ctx.element(x))


def _real(ctx: NodeContext, x: SSAValue) -> SSAValue:
    """Convert features to f32."""
    return cast(ctx, x, f32)


def _vector(ctx: NodeContext, name: str, width: int) -> np.ndarray:
    """Return an attribute with one value per feature, or a single value."""
    values = np.array(ctx.get_floats(name) or [], np.float32)
    ctx.check(len(values) in (1, width), f"{name} has {len(values)} numbers for {width} features")
    return values


@handler("ai.onnx.ml.Scaler")
def scaler(ctx: NodeContext) -> SSAValue:
    """(x - offset) * scale, per feature."""
    x = _real(ctx, ctx.input(0))
    ctx.check(ctx.rank(x) >= 1, "there are no features")
    width = ctx.shape(x)[-1]
    x = ctx.emit(graph.SubOp(x, ctx.array(_vector(ctx, "offset", width))))
    return ctx.emit(graph.MulOp(x, ctx.array(_vector(ctx, "scale", width))))


@handler("ai.onnx.ml.Normalizer")
def normalizer(ctx: NodeContext) -> SSAValue:
    """Rows divided by their norm or maximum; zero rows are kept."""
    x, norm = _real(ctx, ctx.input(0)), ctx.get_string("norm")
    kinds = {"MAX": "max", "L1": "l1", "L2": "l2"}
    ctx.check(norm in kinds, f"norm cannot be {norm!r}")
    ctx.check(ctx.rank(x) in (1, 2), "data should have one dimension or two")
    axis = ctx.rank(x) - 1
    size = ctx.emit(graph.ReduceOp(x, kind=kinds[norm], axes=[axis], keepdims=True))
    is_zero = ctx.emit(graph.CompareOp(size, ctx.literal(0.0, size), predicate="eq"))
    size = ctx.emit(graph.SelectOp(is_zero, ctx.literal(1.0, size), size))
    return ctx.emit(graph.DivOp(x, size))


@handler("ai.onnx.ml.Imputer")
def imputer(ctx: NodeContext) -> SSAValue:
    """Replacement of a value that marks missing features, per feature."""
    x = ctx.input(0)
    if is_float(ctx.element(x)):
        values, missing = ctx.get_floats("imputed_value_floats"), ctx.get_float(
            "replaced_value_float", 0.0
        )  # fmt: skip
    else:
        values, missing = ctx.get_ints("imputed_value_int64s"), ctx.get_int("replaced_value_int64")
    ctx.check(values, "there are no replacement values")
    width = ctx.shape(x)[-1] if ctx.rank(x) else 1
    ctx.check(len(values or ()) in (1, width), f"{len(values or ())} values for {width} features")
    if missing != missing:
        found = ctx.emit(graph.CompareOp(x, x, predicate="ne"))
    else:
        found = ctx.emit(graph.CompareOp(x, ctx.literal(missing, x), predicate="eq"))
    return ctx.emit(graph.SelectOp(found, ctx.literal(np.array(values), x), x))


@handler("ai.onnx.ml.OneHotEncoder")
def one_hot_encoder(ctx: NodeContext) -> SSAValue:
    """One-hot encoding of categories along a new last axis."""
    x = ctx.input(0)
    texts, numbers = ctx.get_strings("cats_strings"), ctx.get_ints("cats_int64s")
    ctx.check((texts is None) != (numbers is None), "there should be one kind of categories")
    keys = np.array(numbers, np.int64) if texts is None else np.array(texts, TEXT)
    if not ctx.is_text(x):
        x = cast(ctx, x, i64)
    place = positions(ctx, x, keys)
    if not ctx.get_bool("zeros"):
        ctx.require(place, 0, len(keys) - 1, "positions of categories")
    place = reshaped(ctx, place, (*ctx.shape(place), 1))
    order = ctx.array(np.arange(len(keys), dtype=np.int64))
    return cast(ctx, ctx.emit(graph.CompareOp(place, order, predicate="eq")), f32)


@handler("ai.onnx.ml.FeatureVectorizer")
def feature_vectorizer(ctx: NodeContext) -> SSAValue:
    """Concatenation of all operands' features, each cropped or zero-padded to a given size."""
    widths = ctx.get_ints("inputdimensions") or []
    ctx.check(len(widths) == len(ctx.operands), f"{len(widths)} sizes for the operands")
    parts: list[SSAValue] = []
    for x, width in zip(ctx.inputs(), widths, strict=True):
        ctx.check(ctx.rank(x) in (1, 2) and width >= 0, "data should have one dimension or two")
        shape = ctx.shape(x)
        rows, own = (1, shape[0]) if len(shape) == 1 else shape
        part = reshaped(ctx, _real(ctx, x), (rows, own))
        if own > width:
            part = ctx.emit(graph.SliceOp(part, [0, 0], [rows, width]))
        parts.append(part)
        if own < width:
            parts.append(ctx.splat((rows, width - own), np.float32(0)))
    return ctx.emit(graph.ConcatOp(parts, axis=1))
