"""Handlers of linear models of classical machine learning (ai.onnx.ml), as in onnxruntime."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.scores import (
    PROBIT_OF_TWO,
    chosen_label,
    chosen_of_two,
    class_labels,
    transformed,
)
from tcopt.frontends.onnx.handlers.shaping import reshaped


def features(ctx: NodeContext) -> SSAValue:
    """Return f32 data [rows, features]; a vector is a single row."""
    x = ctx.input(0)
    ctx.check(ctx.rank(x) in (1, 2), "data should have one dimension or two")
    shape = ctx.shape(x)
    return reshaped(ctx, cast(ctx, x, f32), shape if len(shape) == 2 else (1, *shape))


def products(ctx: NodeContext, x: SSAValue, rows: np.ndarray) -> SSAValue:
    """Return the dot products of rows of data with other rows."""
    return ctx.emit(graph.MatmulOp(x, ctx.array(np.ascontiguousarray(rows.T, np.float32))))


def _sums(ctx: NodeContext, x: SSAValue, count: int | None) -> SSAValue:
    """Return products with the coefficients plus intercepts, [rows, count]."""
    width = ctx.shape(x)[1]
    coefficients = np.array(ctx.get_floats("coefficients") or [], np.float32)
    intercepts = np.array(ctx.get_floats("intercepts") or [], np.float32)
    if count is None:
        count = len(intercepts) or (len(coefficients) // width if width else 0)
    ctx.check(
        count > 0 and len(coefficients) == count * width,
        f"{len(coefficients)} coefficients for {count} scores of {width} features",
    )
    ctx.check(len(intercepts) in (0, count), f"{len(intercepts)} intercepts for {count} scores")
    sums = products(ctx, x, coefficients.reshape(count, width))
    return ctx.emit(graph.AddOp(sums, ctx.array(intercepts))) if len(intercepts) else sums


@handler("ai.onnx.ml.LinearRegressor")
def linear_regressor(ctx: NodeContext) -> SSAValue:
    """Sums for each target; as in onnxruntime, some transforms do not apply to a single target."""
    x, targets = features(ctx), ctx.get_int("targets", 1)
    sums, transform = _sums(ctx, x, targets), ctx.get_string("post_transform", "NONE")
    alone = targets == 1 and transform in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    return sums if alone else transformed(ctx, sums, transform)


@handler("ai.onnx.ml.LinearClassifier")
def linear_classifier(ctx: NodeContext) -> list[SSAValue]:
    """The label of each row, and the scores of all classes."""
    x, labels = features(ctx), class_labels(ctx)
    transform = ctx.get_string("post_transform", "NONE")
    sums = _sums(ctx, x, None)
    rows, count = ctx.shape(sums)
    if count > 1:
        ctx.check(len(labels) == count, f"{len(labels)} labels for {count} scores")
        return [chosen_label(ctx, sums, labels), transformed(ctx, sums, transform)]
    ctx.check(len(labels) == 2, f"{len(labels)} labels for one score")
    above = ctx.emit(graph.CompareOp(sums, ctx.literal(0.0, sums), predicate="gt"))
    label = chosen_of_two(ctx, reshaped(ctx, above, (rows,)), labels)
    return [label, scores_of_both(ctx, sums, transform)]


def scores_of_both(ctx: NodeContext, score: SSAValue, transform: str) -> SSAValue:
    """Return scores [rows, 2] given the second: the first is the complement of the probability for
    LOGISTIC, and 1 minus the score for all other transforms.
    """
    if transform == "PROBIT":
        ctx.unsupported(PROBIT_OF_TWO)
    if transform == "LOGISTIC":
        pair = [ctx.emit(graph.NegOp(score)), score]
        return ctx.emit(graph.SigmoidOp(ctx.emit(graph.ConcatOp(pair, axis=1))))
    other = ctx.emit(graph.SubOp(ctx.literal(1.0, score), score))
    return ctx.emit(graph.ConcatOp([other, score], axis=1))
