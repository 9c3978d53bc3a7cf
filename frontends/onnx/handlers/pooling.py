"""Pooling, local and global."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context import NodeContext
from tcopt.frontends.onnx.registry import handler
from tcopt.frontends.onnx.windows import WindowAttributes


def _pool(ctx: NodeContext, kind: str, *, count_include_pad: bool = False, p: int = 2) -> SSAValue:
    return pooled(ctx, ctx.input(0), kind, count_include_pad=count_include_pad, p=p)


def pooled(
    ctx: NodeContext, x: SSAValue, kind: str, *, count_include_pad: bool = False, p: int = 2
) -> SSAValue:
    """The pooling that a node's attributes describe, of any operand."""
    kernel: Sequence[int] = ctx.get_ints("kernel_shape") or ()
    ctx.check(
        len(kernel) == ctx.rank(x) - 2 > 0,
        f"kernel_shape {list(kernel)} does not fit data of shape {list(ctx.shape(x))}",
    )
    window = WindowAttributes.of(ctx, kernel)
    return ctx.emit(
        graph.PoolOp(
            x,
            kind=kind,
            kernel=kernel,
            strides=window.strides,
            pads=window.pads(ctx.shape(x)[2:]),
            dilations=window.dilations,
            ceil_mode=ctx.get_bool("ceil_mode", 0) and window.auto_pad == "NOTSET",
            count_include_pad=count_include_pad,
            p=p,
        )
    )


@handler("MaxPool")
def max_pool(ctx: NodeContext) -> SSAValue:
    """The greatest element of each window; not its index."""
    ctx.single_output("the indices output")
    return _pool(ctx, "max")


@handler("AveragePool")
def average_pool(ctx: NodeContext) -> SSAValue:
    """The mean of each window, with or without its pads."""
    return _pool(ctx, "average", count_include_pad=ctx.get_bool("count_include_pad", 0))


@handler("LpPool")
def lp_pool(ctx: NodeContext) -> SSAValue:
    """The p-norm of each window."""
    return _pool(ctx, "lp", p=ctx.get_int("p"))


def _spatial_axes(ctx: NodeContext, x: SSAValue) -> list[int]:
    ctx.check(ctx.rank(x) > 2, f"data of shape {list(ctx.shape(x))} has no spatial dimensions")
    return list(range(2, ctx.rank(x)))


@handler("GlobalAveragePool")
def global_average_pool(ctx: NodeContext) -> SSAValue:
    """The mean over all spatial dimensions."""
    x = ctx.input(0)
    return ctx.emit(graph.ReduceOp(x, kind="mean", axes=_spatial_axes(ctx, x), keepdims=True))


@handler("GlobalMaxPool")
def global_max_pool(ctx: NodeContext) -> SSAValue:
    """The maximum over all spatial dimensions."""
    x = ctx.input(0)
    return ctx.emit(graph.ReduceOp(x, kind="max", axes=_spatial_axes(ctx, x), keepdims=True))


@handler("GlobalLpPool")
def global_lp_pool(ctx: NodeContext) -> SSAValue:
    """The p-norm over all spatial dimensions."""
    x, p = ctx.input(0), ctx.get_int("p")
    axes = _spatial_axes(ctx, x)
    if p in (1, 2):
        return ctx.emit(graph.ReduceOp(x, kind=f"l{p}", axes=axes, keepdims=True))
    return ctx.emit(graph.PoolOp(x, kind="lp", kernel=ctx.shape(x)[2:], p=p))
