"""Support vector machines (ai.onnx.ml), as onnxruntime computes them."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context import NodeContext
from tcopt.frontends.onnx.handlers.linear_models import features, products
from tcopt.frontends.onnx.registry import handler


def _kernel(ctx: NodeContext, x: SSAValue, vectors: np.ndarray) -> SSAValue:
    """How like each row of data is to each support vector, [rows, vectors]."""
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
    """One number for each row; of one class whether it is in it, 1 or -1."""
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
