"""Recurrent layers whose products are of 8-bit numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.quantization import dequantized, dynamically_quantized
from tcopt.frontends.onnx.handlers.recurrent import LSTM, recurrent_layer


@handler("com.microsoft.DynamicQuantizeLSTM")
def dynamic_quantize_lstm(ctx: NodeContext) -> list[SSAValue | None]:
    """An LSTM with quantised weights; data and states are rounded to 8 bits over their range.

    Weights are [directions, input, 4 * hidden], with a scale and a zero point for each direction
    or each column. What is multiplied are the real numbers that the 8-bit ones stand for. The
    range is that of the whole batch; onnxruntime takes that of the part which a thread has.
    """
    for place, scale in ((1, 8), (2, 10)):
        ctx.operands[place] = _real_weights(ctx, place, scale)
    return recurrent_layer(ctx, replace(LSTM, rounding=_rounded))


def _real_weights(ctx: NodeContext, place: int, scale: int) -> SSAValue:
    """Weights as an LSTM has them: [directions, 4 * hidden, input]."""
    weights, scales, zeros = (ctx.known(ctx.input(i)) for i in (place, scale, scale + 1))
    if weights is None or scales is None or zeros is None:
        ctx.unsupported("DynamicQuantizeLSTM with weights computed by the model is not supported")
    ctx.check(weights.ndim == 3, f"weights {list(weights.shape)} should have three dimensions")
    for values in (scales, zeros):
        fits = values.shape in (weights.shape[:1], (weights.shape[0], weights.shape[2]))
        ctx.check(fits, f"{list(values.shape)} does not fit weights {list(weights.shape)}")
    centred = weights.astype(np.int32) - _columns(zeros).astype(np.int32)
    real = centred.astype(np.float32) * _columns(scales)
    return ctx.array(np.ascontiguousarray(real.transpose(0, 2, 1)))


def _columns(values: np.ndarray) -> np.ndarray:
    return values.reshape(values.shape[0], 1, -1)


def _rounded(ctx: NodeContext, value: SSAValue) -> SSAValue:
    return dequantized(ctx, *dynamically_quantized(ctx, value))
