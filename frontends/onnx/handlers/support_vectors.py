"""Handlers of support vector machines (ai.onnx.ml), as in onnxruntime."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from xdsl.dialects.builtin import f32, i1
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.coupled_pairs import coupled
from tcopt.frontends.onnx.handlers.linear_models import features, products
from tcopt.frontends.onnx.handlers.scores import (
    chosen_label,
    chosen_of_two,
    class_labels,
    transformed,
)

_LEAST = 1e-7
"""Lower bound of probabilities."""


def _kernel(ctx: NodeContext, x: SSAValue, vectors: np.ndarray) -> SSAValue:
    """Return the kernel function of each row and support vector, [rows, vectors]."""
    kind = ctx.get_string("kernel_type", "LINEAR")
    gamma, offset, degree = [*(ctx.get_floats("kernel_params") or []), 0.0, 0.0, 0.0][:3]
    dots = products(ctx, x, vectors)
    match kind:
        case "LINEAR":
            return dots
        case "RBF":
            own = ctx.emit(graph.ReduceOp(x, kind="sum_square", axes=[1], keepdims=True))
            theirs = ctx.array(np.square(vectors).sum(1, dtype=np.float32))
            doubled = ctx.emit(graph.MulOp(dots, ctx.literal(-2.0, dots)))
            far = ctx.emit(graph.AddOp(ctx.emit(graph.AddOp(own, theirs)), doubled))
            far = ctx.emit(graph.MaxOp(far, ctx.literal(0.0, far)))
            return ctx.emit(graph.ExpOp(ctx.emit(graph.MulOp(far, ctx.literal(-gamma, far)))))
        case "POLY" | "SIGMOID":
            scaled = ctx.emit(graph.MulOp(dots, ctx.literal(gamma, dots)))
            scaled = ctx.emit(graph.AddOp(scaled, ctx.literal(offset, scaled)))
            if kind == "SIGMOID":
                return ctx.emit(graph.TanhOp(scaled))
            return ctx.emit(graph.PowOp(scaled, ctx.literal(degree, scaled)))
        case _:
            ctx.malformed(f"kernel_type cannot be {kind!r}")


@handler("ai.onnx.ml.SVMRegressor")
def svm_regressor(ctx: NodeContext) -> SSAValue:
    """One value for each row; in a one-class model 1 for members of the class, otherwise -1."""
    x = features(ctx)
    width, count = ctx.shape(x)[1], ctx.get_int("n_supports", 0)
    coefficients = np.array(ctx.get_floats("coefficients") or [], np.float32)
    rho = (ctx.get_floats("rho") or [0.0])[:1]
    transform = ctx.get_string("post_transform", "NONE")
    if transform not in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        ctx.unsupported(f"post_transform {transform} of {ctx.op_type} is not supported")
    if count > 0:
        vectors = np.array(ctx.get_floats("support_vectors") or [], np.float32)
        ctx.check(
            len(vectors) == count * width and len(coefficients) == count,
            f"{len(vectors)} numbers and {len(coefficients)} coefficients for {count} vectors of "
            f"{width} features",
        )
        alike, weights = _kernel(ctx, x, vectors.reshape(count, width)), coefficients
    else:
        ctx.check(len(coefficients) == width, f"{len(coefficients)} coefficients for {width}")
        alike, weights = x, coefficients
    sums = products(ctx, alike, weights.reshape(1, -1))
    sums = ctx.emit(graph.AddOp(sums, ctx.literal(rho[0], sums)))
    if not ctx.get_bool("one_class"):
        return sums
    above = ctx.emit(graph.CompareOp(sums, ctx.literal(0.0, sums), predicate="gt"))
    return ctx.emit(graph.SelectOp(above, ctx.literal(1.0, sums), ctx.literal(-1.0, sums)))


@handler("ai.onnx.ml.SVMClassifier")
def svm_classifier(ctx: NodeContext) -> list[SSAValue]:
    """The label of each row by majority vote of all pairs of classes, and the pairwise scores.

    For two classes, both scores; probabilities if the model has their parameters.
    """
    x, labels = features(ctx), class_labels(ctx)
    sizes, transform = ctx.get_ints("vectors_per_class") or [], ctx.get_string("post_transform")
    if not sizes:
        return _linear(ctx, x, labels, transform)
    ctx.check(min(sizes) >= 0 and len(sizes) == len(labels) > 1, "classes and labels differ")
    pairs = list(combinations(range(len(sizes)), 2))
    sums = _pair_scores(ctx, x, sizes, pairs)
    wins = cast(ctx, ctx.emit(graph.CompareOp(sums, ctx.literal(0.0, sums), predicate="gt")), f32)
    won, start = np.zeros((len(sizes), len(pairs))), np.zeros(len(sizes))
    for place, (first, second) in enumerate(pairs):
        won[first, place], won[second, place] = 1, -1
        start[second] += 1
    votes = products(ctx, wins, won)
    votes = ctx.emit(graph.AddOp(votes, ctx.literal(start, votes)))
    label = chosen_label(ctx, votes, labels)
    slopes, offsets = ctx.get_floats("prob_a") or [], ctx.get_floats("prob_b") or []
    if slopes or offsets:
        ctx.check(len(slopes) == len(offsets) == len(pairs), "prob_a and prob_b do not fit")
        return [label, _probabilities(ctx, sums, pairs, (slopes, offsets), transform)]
    return [label, _class_scores(ctx, sums, transform)]


def _linear(ctx: NodeContext, x: SSAValue, labels: np.ndarray, transform: str) -> list[SSAValue]:
    """Classify without support vectors, by a coefficient vector per class and a common offset."""
    weights = np.array(ctx.get_floats("coefficients") or [], np.float32)
    width, classes = ctx.shape(x)[1], len(labels)
    ctx.check(
        len(weights) == classes * width,
        f"{len(weights)} coefficients for {classes} classes of {width} features",
    )
    sums = _kernel(ctx, x, weights.reshape(classes, width))
    rho = (ctx.get_floats("rho") or [0.0])[0]
    sums = ctx.emit(graph.AddOp(sums, ctx.literal(rho, sums)))
    scores = transformed(ctx, sums, transform)
    if classes != 2:
        return [chosen_label(ctx, sums, labels), scores]
    # As in onnxruntime: the second class is chosen if its score is higher, or if any score exceeds
    # a limit.
    most = ctx.emit(graph.ReduceOp(sums, kind="max", axes=[1]))
    limit, predicate = (0.5, "ge") if (weights >= 0).all() else (0.0, "gt")
    second = ctx.emit(graph.CompareOp(most, ctx.literal(limit, most), predicate=predicate))
    greater = ctx.emit(graph.ArgReduceOp(sums, kind="max", axis=1))
    second = ctx.emit(graph.OrOp(second, cast(ctx, greater, i1)))
    return [chosen_of_two(ctx, second, labels), scores]


def _pair_scores(
    ctx: NodeContext, x: SSAValue, sizes: list[int], pairs: list[tuple[int, int]]
) -> SSAValue:
    """Return the score of each pair of classes, positive for its first class: [rows, pairs]."""
    width, count, classes = ctx.shape(x)[1], sum(sizes), len(sizes)
    vectors = np.array(ctx.get_floats("support_vectors") or [], np.float32)
    weights = np.array(ctx.get_floats("coefficients") or [], np.float32)
    rho = np.array(ctx.get_floats("rho") or [], np.float32)
    ctx.check(
        len(vectors) == count * width
        and len(weights) == (classes - 1) * count
        and len(rho) == len(pairs),
        f"attributes do not fit {count} vectors of {width} features and {classes} classes",
    )
    weights = weights.reshape(classes - 1, count)
    ends = np.cumsum(sizes)
    matrix = np.zeros((len(pairs), count), np.float32)
    for place, (first, second) in enumerate(pairs):
        for own, row in ((first, second - 1), (second, first)):
            part = slice(ends[own] - sizes[own], ends[own])
            matrix[place, part] = weights[row, part]
    sums = products(ctx, _kernel(ctx, x, vectors.reshape(count, width)), matrix)
    return ctx.emit(graph.AddOp(sums, ctx.array(rho)))


def _class_scores(ctx: NodeContext, sums: SSAValue, transform: str) -> SSAValue:
    """Return the scores of pairs; for a single pair those of both classes."""
    if ctx.shape(sums)[1] > 1:
        return transformed(ctx, sums, transform)
    if transform not in ("NONE", "LOGISTIC"):
        ctx.unsupported(f"post_transform {transform} of two classes is not supported")
    both = ctx.emit(graph.ConcatOp([ctx.emit(graph.NegOp(sums)), sums], axis=1))
    return transformed(ctx, both, transform)


def _probabilities(
    ctx: NodeContext,
    sums: SSAValue,
    pairs: list[tuple[int, int]],
    sigmoids: tuple[list[float], list[float]],
    transform: str,
) -> SSAValue:
    """Return the probabilities of classes (Platt, 1999), which do not affect the labels."""
    if transform != "NONE":
        ctx.unsupported(f"probabilities of {ctx.op_type} with a post_transform are not supported")
    slopes, offsets = (np.array(values, np.float32) for values in sigmoids)
    scaled = ctx.emit(graph.MulOp(sums, ctx.array(-slopes)))
    scaled = ctx.emit(graph.SubOp(scaled, ctx.array(offsets)))
    first = ctx.emit(graph.SigmoidOp(scaled))
    first = ctx.emit(graph.ClipOp(first, min=_LEAST, max=1 - _LEAST))
    if len(pairs) > 1:
        return coupled(ctx, first, pairs)
    second = ctx.emit(graph.SubOp(ctx.literal(1.0, first), first))
    return ctx.emit(graph.ConcatOp([first, second], axis=1))
