"""Handler of recurrent layers whose products are computed on 8-bit integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.quantization import cast, centred, dynamically_quantized
from tcopt.frontends.onnx.handlers.recurrent import LSTM, States, recurrent_layer

_SCALES = {1: 8, 2: 10}
"""Index of the scales operand by that of the weights; the zero points follow it."""


@handler("com.microsoft.DynamicQuantizeLSTM")
def dynamic_quantize_lstm(ctx: NodeContext) -> list[SSAValue | None]:
    """LSTM with quantised weights; data and states are dynamically quantised to 8 bits.

    Weights are [directions, input, 4 * hidden], with a scale and a zero point per direction or per
    column. The quantisation range is that of the whole batch, whereas onnxruntime uses that of the
    part processed by each thread.
    """
    for place in _SCALES:
        ctx.operands[place] = _rows(ctx, place)
    return recurrent_layer(ctx, replace(LSTM, product=_product, scales=_scales))


def _rows(ctx: NodeContext, place: int) -> SSAValue:
    """Return weights in the layout of LSTM: [directions, 4 * hidden, input]."""
    weights, scales, zeros = (ctx.known(ctx.input(i)) for i in (place, *_places(place)))
    if weights is None or scales is None or zeros is None:
        ctx.unsupported("DynamicQuantizeLSTM with weights computed by the model is not supported")
    ctx.check(weights.ndim == 3, f"weights {list(weights.shape)} should have three dimensions")
    for values in (scales, zeros):
        fits = values.shape in (weights.shape[:1], (weights.shape[0], weights.shape[2]))
        ctx.check(fits, f"{list(values.shape)} does not fit weights {list(weights.shape)}")
    return ctx.array(np.ascontiguousarray(weights.transpose(0, 2, 1)))


def _places(place: int) -> tuple[int, int]:
    return _SCALES[place], _SCALES[place] + 1


def _scales(ctx: NodeContext, place: int, direction: int) -> States:
    """Return a direction's weight scale, per tensor or column, and its zero points for rows."""
    scale, zero = (ctx.known(ctx.input(i)) for i in _places(place))
    assert scale is not None and zero is not None
    zeros = zero[direction]
    return [ctx.array(scale[direction]), ctx.array(zeros.reshape(-1, 1) if zeros.ndim else zeros)]


def _product(ctx: NodeContext, x: SSAValue, rows: SSAValue, scales: States) -> SSAValue:
    """Compute the product on integers, and dequantise the result."""
    (weights_scale, weights_zero) = scales
    data, scale, zero = dynamically_quantized(ctx, x)
    left, right = centred(ctx, data, zero), centred(ctx, rows, weights_zero)
    total = ctx.emit(graph.MatmulOp(left, right, transpose_b=True, result_element=i32))
    factor = ctx.emit(graph.MulOp(scale, weights_scale))
    return ctx.emit(graph.MulOp(cast(ctx, total, f32), factor))
