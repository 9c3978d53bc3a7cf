"""Handlers of convolution and transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import as_extent
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.context.windows import WindowAttributes
from tcopt.support.arithmetic.sizes import maximum


def _kernel(ctx: NodeContext, x: SSAValue, w: SSAValue) -> tuple[int, ...]:
    """Return the spatial extents of the weights; `kernel_shape` must agree if present."""
    ctx.check(
        ctx.rank(x) >= 3 and ctx.rank(x) == ctx.rank(w),
        f"data {list(ctx.shape(x))} and weights {list(ctx.shape(w))} should have the same rank, "
        "with a batch, channels and spatial dimensions",
    )
    kernel = ctx.shape(w)[2:]
    stated = ctx.get_ints("kernel_shape")
    ctx.check(
        stated is None or tuple(stated) == kernel,
        f"kernel_shape {stated} contradicts the weights, {list(ctx.shape(w))}",
    )
    return kernel


def _add_bias(ctx: NodeContext, result: SSAValue, bias: SSAValue | None) -> SSAValue:
    if bias is None:
        return result
    channels = ctx.shape(result)[1]
    ctx.check(
        ctx.shape(bias) == (channels,),
        f"bias {list(ctx.shape(bias))} does not fit {channels} output channels",
    )
    column = graph.ReshapeOp(bias, (channels, *[1] * (ctx.rank(result) - 2)))
    return ctx.emit(graph.AddOp(result, ctx.emit(column)))


@handler("Conv")
def conv(ctx: NodeContext) -> SSAValue:
    """Convolution with groups, dilation and any padding."""
    return convolved(ctx, ctx.input(0), ctx.input(1), ctx.optional_input(2))


def convolved(
    ctx: NodeContext,
    x: SSAValue,
    w: SSAValue,
    bias: SSAValue | None,
    result_element: Attribute | None = None,
) -> SSAValue:
    """Emit the convolution described by a node's attributes, for given operands."""
    window = WindowAttributes.of(ctx, _kernel(ctx, x, w))
    data, pads = window.padded(ctx, x)
    result = ctx.emit(
        graph.ConvOp(
            data,
            w,
            strides=window.strides,
            pads=pads,
            dilations=window.dilations,
            groups=ctx.get_int("group"),
            result_element=result_element,
        )
    )
    return _add_bias(ctx, result, bias)


@handler("ConvTranspose")
def conv_transpose(ctx: NodeContext) -> SSAValue:
    """Transposed convolution; pads are explicit, automatic, or follow from the output shape."""
    x, w = ctx.input(0), ctx.input(1)
    window = WindowAttributes.of(ctx, _kernel(ctx, x, w))
    extra = ctx.get_ints("output_padding") or [0] * len(window.kernel)
    ctx.check(len(extra) == len(window.kernel), f"output_padding {extra} has a wrong length")
    pads, extra = _transposed_pads(ctx, ctx.shape(x)[2:], window, extra)
    result = ctx.emit(
        graph.ConvTransposeOp(
            x,
            w,
            strides=window.strides,
            pads=pads,
            output_pads=extra,
            dilations=window.dilations,
            groups=ctx.get_int("group"),
        )
    )
    return _add_bias(ctx, result, ctx.optional_input(2))


def _transposed_pads(
    ctx: NodeContext, extents: Sequence[int], window: WindowAttributes, extra: list[int]
) -> tuple[list[int], list[int]]:
    """Return pads and output padding by ONNX's definition of ConvTranspose."""
    target = ctx.get_ints("output_shape")
    if target is not None:
        target = target[-len(extents) :]
        ctx.check(len(target) == len(extents), f"output_shape {target} has a wrong length")
    elif window.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        target = [n * s for n, s in zip(extents, window.strides, strict=True)]
    else:
        return window.pads(extents), extra
    low: list[int] = []
    high: list[int] = []
    more: list[int] = []
    for index, wanted in enumerate(target):
        stride = window.strides[index]
        full = (extents[index] - 1) * stride + window.spans[index] + extra[index]
        total = as_extent(maximum(full - wanted, 0))
        small, large = total // 2, total - total // 2
        upper = window.auto_pad == "SAME_UPPER"
        low.append(small if upper else large)
        high.append(large if upper else small)
        more.append(extra[index] + as_extent(maximum(wanted - full, 0)))
    return low + high, more
