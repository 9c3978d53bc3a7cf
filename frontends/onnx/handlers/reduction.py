"""Handlers of reductions along axes."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import element_of
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import Handler, register_handler

_KINDS = {
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum_square",
}


def _axes(ctx: NodeContext) -> list[int]:
    """Return the axes, from the attribute in older opsets or the operand in newer ones."""
    x = ctx.input(0)
    by_operand = ctx.opset >= (13 if ctx.op_type == "ReduceSum" else 18)
    axes = ctx.optional_constant_ints(1, "axes") if by_operand else ctx.get_ints("axes")
    if not axes and not ctx.get_bool("noop_with_empty_axes", 0):
        return list(range(ctx.rank(x)))
    return ctx.axes(axes or [], ctx.rank(x))


def _reduce(kind: str) -> Handler:
    def run(ctx: NodeContext) -> SSAValue:
        x, axes = ctx.input(0), _axes(ctx)
        keepdims = ctx.get_bool("keepdims")
        if ctx.element(x) != i1:
            return ctx.emit(graph.ReduceOp(x, kind=kind, axes=axes, keepdims=keepdims))
        wide = ctx.emit(graph.CastOp(x, element_of(np.dtype(np.uint8))))
        reduced = ctx.emit(graph.ReduceOp(wide, kind=kind, axes=axes, keepdims=keepdims))
        return ctx.emit(graph.CastOp(reduced, i1))

    return run


for _op_type, _kind in _KINDS.items():
    register_handler(_op_type, _reduce(_kind))


def _arg_reduce(kind: str) -> Handler:
    def run(ctx: NodeContext) -> SSAValue:
        x = ctx.input(0)
        return ctx.emit(
            graph.ArgReduceOp(
                x,
                kind=kind,
                axis=ctx.axis(ctx.get_int("axis"), ctx.rank(x)),
                keepdims=ctx.get_bool("keepdims"),
                select_last=ctx.get_bool("select_last_index", 0),
            )
        )

    return run


for _op_type, _kind in {"ArgMax": "max", "ArgMin": "min"}.items():
    register_handler(_op_type, _arg_reduce(_kind))


def _cumulative(op: type[graph.CumsumOp | graph.CumprodOp]) -> Handler:
    def run(ctx: NodeContext) -> SSAValue:
        x = ctx.input(0)
        return ctx.emit(
            op(
                x,
                axis=ctx.axis(ctx.constant_int(1, "the axis"), ctx.rank(x)),
                exclusive=ctx.get_bool("exclusive"),
                reverse=ctx.get_bool("reverse"),
            )
        )

    return run


register_handler("CumSum", _cumulative(graph.CumsumOp))
register_handler("CumProd", _cumulative(graph.CumprodOp))
