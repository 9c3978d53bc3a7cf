"""Conversion of scores of ai.onnx.ml models: transforms, and selection of class labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.support.data.strings import TEXT, is_text

_WINITZKI = 0.147
_WINITZKI_PI = 3.14159
"""Constant as in onnxruntime, in 32 bits."""

PROBIT_OF_TWO = (
    "post_transform PROBIT of two classes is not supported: onnxruntime's scores of these do not "
    "follow from the model"
)

_TINY = 1e-7
"""Magnitude up to which SOFTMAX_ZERO treats scores as zero."""


def class_labels(ctx: NodeContext) -> np.ndarray:
    """Return the integer or string labels of the classes."""
    for name in ("classlabels_int64s", "classlabels_ints"):
        found = ctx.get_ints(name)
        if found:
            return np.array(found, np.int64)
    texts = ctx.get_strings("classlabels_strings")
    if texts:
        return np.array(texts, TEXT)
    ctx.malformed("it has no class labels")


def chosen_label(ctx: NodeContext, scores: SSAValue, labels: np.ndarray) -> SSAValue:
    """Return the label of the class with the highest score in each row; the first if tied."""
    best = ctx.emit(graph.ArgReduceOp(scores, kind="max", axis=1, keepdims=False))
    label = ctx.emit(graph.GatherOp(ctx.array(labels), best, axis=0))
    return ctx.text(label) if is_text(labels.dtype) else label


def chosen_of_two(ctx: NodeContext, second: SSAValue, labels: np.ndarray) -> SSAValue:
    """Return the second label where a condition [rows] holds, the first elsewhere."""
    no, yes = (ctx.array(np.array(label, labels.dtype)) for label in labels)
    label = ctx.emit(graph.SelectOp(second, yes, no))
    return ctx.text(label) if is_text(labels.dtype) else label


def transformed(ctx: NodeContext, scores: SSAValue, transform: str) -> SSAValue:
    """Apply a `post_transform` to scores [rows, classes]."""
    match transform:
        case "NONE":
            return scores
        case "LOGISTIC":
            return ctx.emit(graph.SigmoidOp(scores))
        case "SOFTMAX":
            return ctx.emit(graph.SoftmaxOp(scores, axis=1))
        case "SOFTMAX_ZERO":
            return _softmax_of_others(ctx, scores)
        case "PROBIT":
            return _probit(ctx, scores)
        case _:
            ctx.malformed(f"post_transform cannot be {transform!r}")


def _probit(ctx: NodeContext, scores: SSAValue) -> SSAValue:
    """Return the normal quantile of a probability, sqrt(2) * erfinv(2p - 1).

    The inverse of erf is Winitzki's approximation with a = 0.147, as in onnxruntime.
    """

    def number(value: float) -> SSAValue:
        return ctx.literal(value, scores)

    twice = ctx.emit(graph.MulOp(scores, number(2.0)))
    x = ctx.emit(graph.SubOp(twice, number(1.0)))
    left, right = ctx.emit(graph.SubOp(number(1.0), x)), ctx.emit(graph.AddOp(number(1.0), x))
    log = ctx.emit(graph.LogOp(ctx.emit(graph.MulOp(left, right))))
    half = ctx.emit(graph.MulOp(log, number(0.5)))
    shifted = ctx.emit(graph.AddOp(half, number(2 / (_WINITZKI_PI * _WINITZKI))))
    scaled = ctx.emit(graph.MulOp(log, number(1 / _WINITZKI)))
    square = ctx.emit(graph.SubOp(ctx.emit(graph.MulOp(shifted, shifted)), scaled))
    inner = ctx.emit(graph.SubOp(ctx.emit(graph.SqrtOp(square)), shifted))
    size = ctx.emit(graph.SqrtOp(inner))
    negative = ctx.emit(graph.CompareOp(x, number(0.0), predicate="lt"))
    sign = ctx.emit(graph.SelectOp(negative, number(-1.0), number(1.0)))
    inverse = ctx.emit(graph.MulOp(sign, size))
    return ctx.emit(graph.MulOp(inverse, number(1.41421356)))


def _softmax_of_others(ctx: NodeContext, scores: SSAValue) -> SSAValue:
    """Apply softmax except that zero scores give 0, as in onnxruntime."""
    most = ctx.emit(graph.ReduceOp(scores, kind="max", axes=[1], keepdims=True))
    parts = ctx.emit(graph.ExpOp(ctx.emit(graph.SubOp(scores, most))))
    size = ctx.emit(graph.AbsOp(scores))
    is_zero = ctx.emit(graph.CompareOp(size, ctx.literal(_TINY, scores), predicate="le"))
    zeros = ctx.emit(graph.MulOp(scores, ctx.emit(graph.ExpOp(ctx.emit(graph.NegOp(most))))))
    parts = ctx.emit(graph.SelectOp(is_zero, zeros, parts))
    total = ctx.emit(graph.ReduceOp(parts, kind="sum", axes=[1], keepdims=True))
    return ctx.emit(graph.DivOp(parts, total))


def two_classes(
    ctx: NodeContext,
    scores: Sequence[SSAValue | None],
    labels: np.ndarray,
    transform: str,
    base: Sequence[float],
    *,
    votes: bool,
) -> tuple[SSAValue, SSAValue]:
    """Return labels [rows] and scores [rows, 2] of two classes.

    ONNX does not specify the score of a class without votes, or which base values apply; this
    matches onnxruntime. If only one class has scores, those of the other are derived from them.

    Args:
        scores: [rows, 1] for each class; None for a class without scores.
        votes: whether scores of a single class are fractions of votes, to be compared with 0.5.
    """
    ctx.check(len(base) <= 2, f"base_values has {len(base)} entries for 2 classes")
    first, second = scores
    if transform == "PROBIT" and first is not None:
        ctx.unsupported(PROBIT_OF_TWO)
    some = first if first is not None else second
    assert some is not None

    def plus(score: SSAValue | None, number: float) -> SSAValue:
        value = ctx.literal(np.full(ctx.shape(some), number), some)
        return value if score is None else ctx.emit(graph.AddOp(score, value))

    if len(base) == 2 and second is not None:
        second = plus(first, base[1])
        first = None if first is None else ctx.emit(graph.NegOp(second))
    elif base and first is not None:
        first = plus(first, base[0])
    decisive = second if second is not None else first
    assert decisive is not None
    limit = 0.5 if votes and None in scores else 0.0
    above = ctx.emit(graph.CompareOp(decisive, ctx.literal(limit, decisive), predicate="gt"))
    chosen = ctx.emit(graph.ReshapeOp(above, ctx.shape(above)[:1]))
    label = chosen_of_two(ctx, chosen, labels)
    if second is None and first is not None and len(base) < 2:
        return label, _both_of_one(ctx, first, transform, votes)
    pair = [plus(None, 0.0) if score is None else score for score in (first, second)]
    return label, transformed(ctx, ctx.emit(graph.ConcatOp(pair, axis=1)), transform)


def _both_of_one(ctx: NodeContext, score: SSAValue, transform: str, votes: bool) -> SSAValue:
    """Return the scores of both classes, given one: the other is its complement or its negative."""
    other = ctx.emit(graph.NegOp(score))
    if transform == "LOGISTIC":
        both = ctx.emit(graph.ConcatOp([other, score], axis=1))
        return ctx.emit(graph.SigmoidOp(both))
    if votes:
        other = ctx.emit(graph.SubOp(ctx.literal(1.0, score), score))
    return ctx.emit(graph.ConcatOp([other, score], axis=1))
