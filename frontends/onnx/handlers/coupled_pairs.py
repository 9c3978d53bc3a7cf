"""Class probabilities from pairwise probabilities (Wu, Lin and Weng, 2004; as in libsvm).

The iteration is libsvm's, including its limits, so results that have not converged are the same as
onnxruntime's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.scans import scan
from tcopt.frontends.onnx.handlers.shaping import reshaped

_ITERATIONS = 100
_ERROR = 0.005


def coupled(ctx: NodeContext, first: SSAValue, pairs: list[tuple[int, int]]) -> SSAValue:
    """Return the probabilities of classes, [rows, classes].

    Args:
        first: [rows, pairs], probability of the first class of each pair.
    """
    classes, rows = pairs[-1][1] + 1, ctx.shape(first)[0]
    matrix = _quadratic(ctx, first, pairs, classes)
    start = ctx.splat((rows, classes), np.float32(1 / classes))
    moving = ctx.splat((rows, 1), np.float32(1))

    def body(inner: NodeContext, values: list[SSAValue]) -> list[SSAValue]:
        return _refined(inner, *values)

    steps = max(_ITERATIONS, classes)
    return scan(ctx, body, steps, [start, moving], [], [matrix], [])[0]


def _quadratic(
    ctx: NodeContext, first: SSAValue, pairs: list[tuple[int, int]], classes: int
) -> SSAValue:
    """Return Q [rows, classes, classes]; the probabilities minimise the form p Q p."""
    rows = ctx.shape(first)[0]
    # For each pair (t, j) in both orders, r[j, t] is the probability of j.
    spread = np.zeros((len(pairs), classes, classes), np.float32)
    ones = np.zeros((classes, classes), np.float32)
    for place, (a, b) in enumerate(pairs):
        spread[place, a, b], spread[place, b, a] = 1, -1
        ones[b, a] = 1
    flat = ctx.emit(graph.MatmulOp(first, ctx.array(spread.reshape(len(pairs), -1))))
    own = ctx.emit(graph.AddOp(flat, ctx.array(ones.reshape(-1))))
    chances = reshaped(ctx, own, (rows, classes, classes))
    turned = ctx.emit(graph.TransposeOp(chances, [0, 2, 1]))
    products = ctx.emit(graph.NegOp(ctx.emit(graph.MulOp(chances, turned))))
    squares = ctx.emit(graph.ReduceOp(chances, kind="sum_square", axes=[1], keepdims=True))
    diagonal = ctx.emit(graph.MulOp(squares, ctx.array(np.eye(classes, dtype=np.float32))))
    return ctx.emit(graph.AddOp(products, diagonal))


def _refined(ctx: NodeContext, p: SSAValue, moving: SSAValue, matrix: SSAValue) -> list[SSAValue]:
    """One iteration: each probability is set to its optimum, followed by normalisation.

    Rows that have converged are kept.
    """
    rows, classes = ctx.shape(p)

    def emit(make: Callable[..., Operation], *operands: Any, **options: Any) -> SSAValue:
        return ctx.emit(make(*operands, **options))

    gradient = reshaped(
        ctx, emit(graph.MatmulOp, matrix, reshaped(ctx, p, (rows, classes, 1))), (rows, classes)
    )
    form = emit(graph.ReduceOp, emit(graph.MulOp, p, gradient), kind="sum", axes=[1], keepdims=True)
    far = emit(graph.AbsOp, emit(graph.SubOp, gradient, form))
    error = emit(graph.ReduceOp, far, kind="max", axes=[1], keepdims=True)
    limit = ctx.literal(_ERROR / classes, error)
    wrong = ctx.emit(graph.CompareOp(error, limit, predicate="ge"))
    one, zero = ctx.literal(1.0, error), ctx.literal(0.0, error)
    moving = emit(graph.MulOp, moving, emit(graph.SelectOp, wrong, one, zero))
    lines = emit(graph.TransposeOp, matrix, [1, 0, 2])
    hot = ctx.array(np.eye(classes, dtype=np.float32).reshape(classes, 1, classes))
    new, *_ = scan(ctx, _moved, classes, [p, gradient, form], [lines, hot], [], [])
    still = emit(graph.CompareOp, moving, zero, predicate="gt")
    return [emit(graph.SelectOp, still, new, p), moving]


def _moved(ctx: NodeContext, values: list[SSAValue]) -> list[SSAValue]:
    """Set one probability to its optimum and normalise; also update the gradient and the form.

    Args:
        values: p and its gradient [rows, classes]; the form [rows, 1]; the row of the matrix [rows,
            classes] of this probability; and its one-hot index [1, classes].
    """
    p, gradient, form, line, hot = values

    def emit(make: Callable[..., Operation], *operands: Any, **options: Any) -> SSAValue:
        return ctx.emit(make(*operands, **options))

    def here(value: SSAValue) -> SSAValue:
        product = emit(graph.MulOp, value, hot)
        return emit(graph.ReduceOp, product, kind="sum", axes=[1], keepdims=True)

    own, slope = here(line), here(gradient)
    step = emit(graph.DivOp, emit(graph.SubOp, form, slope), own)
    norm = emit(graph.AddOp, step, ctx.literal(1.0, step))
    grown = emit(graph.AddOp, emit(graph.MulOp, step, own), emit(graph.AddOp, slope, slope))
    raised = emit(graph.AddOp, form, emit(graph.MulOp, step, grown))
    moved = emit(graph.AddOp, gradient, emit(graph.MulOp, step, line))
    new = emit(graph.AddOp, p, emit(graph.MulOp, step, hot))
    return [
        emit(graph.DivOp, new, norm),
        emit(graph.DivOp, moved, norm),
        emit(graph.DivOp, raised, emit(graph.MulOp, norm, norm)),
    ]
