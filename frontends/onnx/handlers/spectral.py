"""Handlers of Fourier transforms, computed as matrix products, and related operators."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import is_half
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.long_transforms import resized, transformed

_PRODUCT_LIMIT = 1 << 11
"""Maximum length of a transform computed by one product; its matrix takes 64 MiB."""

_LENGTH_LIMIT = 1 << 22
"""Maximum length of a transform; its factors are constants of the program."""


@handler("DFT", until=20)
def dft_by_attribute(ctx: NodeContext) -> SSAValue:
    """Transform along an axis given as an attribute."""
    return _dft(ctx, ctx.get_int("axis"))


@handler("DFT", since=20)
def dft_by_input(ctx: NodeContext) -> SSAValue:
    """Transform along an axis given as an operand."""
    axis = -2 if ctx.optional_input(2) is None else ctx.constant_int(2, "the axis")
    return _dft(ctx, axis)


@handler("com.microsoft.Rfft", "com.microsoft.Irfft")
def real_transform(ctx: NodeContext) -> SSAValue:
    """onnxruntime's transform of real signals along the last axis, or its inverse."""
    x, inverse = ctx.input(0), ctx.op_type == "Irfft"
    for name, wanted in (("onesided", 1), ("normalized", 0), ("signal_ndim", 1)):
        if ctx.get_int(name) != wanted:
            ctx.unsupported(f"{ctx.op_type} with {name}={ctx.get_int(name)} is not supported")
    shape = ctx.shape(x)
    ctx.check(not inverse or (len(shape) > 1 and shape[-1] == 2), f"{list(shape)} holds no spectra")
    parts = 2 if inverse else 1
    *beside, given = list(shape[:-1] if inverse else shape)
    length = 2 * (given - 1) if inverse else given
    rows = ctx.emit(graph.ReshapeOp(x, (math.prod(beside), given * parts)))
    found = _transformed(ctx, rows, given, parts, length, inverse=inverse, onesided=True)
    extents = (length,) if inverse else (length // 2 + 1, 2)
    return ctx.emit(graph.ReshapeOp(found, (*beside, *extents)))


def _dft(ctx: NodeContext, stated_axis: int) -> SSAValue:
    x = ctx.input(0)
    shape, rank = ctx.shape(x), ctx.rank(x)
    ctx.check(rank >= 2 and shape[-1] in (1, 2), f"{list(shape)} holds no signals")
    axis = ctx.axis(stated_axis, rank)
    ctx.check(axis < rank - 1, "the last axis holds the parts of complex numbers")
    inverse, onesided = ctx.get_bool("inverse"), ctx.get_bool("onesided")
    length = shape[axis]
    if ctx.optional_input(1) is not None:
        length = ctx.constant_int(1, "the length of the transform")
    elif inverse and onesided:
        length = 2 * (length - 1)
    order = [d for d in range(rank - 1) if d != axis]
    beside = [shape[d] for d in order]
    front = ctx.emit(graph.TransposeOp(x, [*order, axis, rank - 1]))
    rows = ctx.emit(graph.ReshapeOp(front, (math.prod(beside), shape[axis] * shape[-1])))
    result = _transformed(
        ctx, rows, shape[axis], shape[-1], length, inverse=inverse, onesided=onesided
    )
    parts = 1 if inverse and onesided else 2
    extent = ctx.shape(result)[1] // parts
    whole = ctx.emit(graph.ReshapeOp(result, (*beside, extent, parts)))
    back = [*order, axis, rank - 1]
    return ctx.emit(graph.TransposeOp(whole, [back.index(d) for d in range(rank)]))


def _transformed(
    ctx: NodeContext,
    rows: SSAValue,
    given: int,
    parts: int,
    length: int,
    *,
    inverse: bool,
    onesided: bool,
) -> SSAValue:
    """Transform rows [signals, given * parts]; the result is [signals, bins * parts]."""
    ctx.check(length > 0, f"a transform of length {length} has no bins")
    if length > _LENGTH_LIMIT:
        ctx.unsupported(
            f"a transform of length {length} is not supported; the maximum is {_LENGTH_LIMIT}"
        )
    element = ctx.element(rows)
    wide = ctx.emit(graph.CastOp(rows, f32)) if is_half(element) else rows
    if length > _PRODUCT_LIMIT:
        signals = ctx.emit(graph.ReshapeOp(wide, (ctx.shape(rows)[0], given, parts)))
        product = _long(ctx, signals, length, inverse=inverse, onesided=onesided)
    else:
        waves = _waves(given, parts, length, inverse=inverse, onesided=onesided)
        product = ctx.emit(graph.MatmulOp(wide, ctx.literal(waves, wide)))
    return ctx.emit(graph.CastOp(product, element)) if is_half(element) else product


def _long(ctx: NodeContext, x: SSAValue, length: int, *, inverse: bool, onesided: bool) -> SSAValue:
    """Transform signals [signals, given, parts] in several steps; see `_transformed`."""
    count = length // 2 + 1 if inverse and onesided else length
    x = resized(ctx, x, count)
    signals, _, parts = ctx.shape(x)
    if parts == 1:
        x = ctx.emit(graph.ConcatOp([x, ctx.literal(np.zeros((signals, count, 1)), x)], axis=2))
    if inverse and onesided:
        # The remaining bins are the conjugates of these.
        mirrored = np.arange(length - count, 0, -1)
        others = ctx.emit(graph.GatherOp(x, ctx.array(mirrored), axis=1))
        others = ctx.emit(graph.MulOp(others, ctx.literal([1, -1], x)))
        x = ctx.emit(graph.ConcatOp([x, others], axis=1))
    x = transformed(ctx, x, inverse=inverse)
    bins = length // 2 + 1 if onesided and not inverse else length
    kept = 1 if inverse and onesided else 2
    x = ctx.emit(graph.SliceOp(x, [0, 0, 0], (signals, bins, kept)))
    return ctx.emit(graph.ReshapeOp(x, (signals, bins * kept)))


def _waves(given: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> np.ndarray:
    """Return the matrix [given * parts, bins * parts of the result] of a transform.

    Signals are cropped or zero-padded to the length. A one-sided spectrum omits the bins that are
    conjugates of others.
    """
    used = min(given, length)
    sign = 1 if inverse else -1
    if inverse and onesided:
        # Every bin between the first and the middle one counts twice.
        count = min(used, length // 2 + 1)
        angles = 2 * np.pi * np.outer(np.arange(count), np.arange(length)) / length
        twice = np.full((count, 1), 2.0)
        twice[0] = 1.0
        if length % 2 == 0 and count == length // 2 + 1:
            twice[-1] = 1.0
        real, imaginary = twice * np.cos(angles) / length, -twice * np.sin(angles) / length
        matrix = np.zeros((given, parts, length))
        matrix[:count, 0] = real
        if parts == 2:
            matrix[:count, 1] = imaginary
        return matrix.reshape(given * parts, length)
    bins = length // 2 + 1 if onesided else length
    angles = sign * 2 * np.pi * np.outer(np.arange(used), np.arange(bins)) / length
    scale = 1 / length if inverse else 1.0
    cosines, sines = np.cos(angles) * scale, np.sin(angles) * scale
    matrix = np.zeros((given, parts, bins, 2))
    matrix[:used, 0, :, 0], matrix[:used, 0, :, 1] = cosines, sines
    if parts == 2:
        matrix[:used, 1, :, 0], matrix[:used, 1, :, 1] = -sines, cosines
    return matrix.reshape(given * parts, bins * 2)


@handler("STFT")
def stft(ctx: NodeContext) -> SSAValue:
    """Transforms of a window that is moved over signals."""
    x = ctx.input(0)
    shape = ctx.shape(x)
    parts = shape[2] if len(shape) == 3 else 1
    ctx.check(len(shape) in (2, 3) and parts in (1, 2), f"{list(shape)} holds no signals")
    batch, samples = shape[:2]
    step = ctx.constant_int(1, "the step between windows")
    window = ctx.optional_input(2)
    if ctx.optional_input(3) is not None:
        length = ctx.constant_int(3, "the length of a window")
    else:
        ctx.check(window is not None, "either a window or its length should be given")
        length = ctx.shape(ctx.input(2))[0]
    ctx.check(step > 0 and 0 < length <= samples, f"windows of {length} do not fit {samples}")
    onesided = ctx.get_bool("onesided") and parts == 1
    frames = (samples - length) // step + 1
    starts = ctx.emit(graph.MulOp(ctx.positions(frames), ctx.sizes(step)))
    starts = ctx.emit(graph.ReshapeOp(starts, (frames, 1)))
    places = ctx.emit(graph.AddOp(starts, ctx.positions(length)))
    signals = ctx.emit(graph.ReshapeOp(x, (batch, samples, parts)))
    taken = ctx.emit(graph.GatherOp(signals, places, axis=1))
    if window is not None:
        factor = ctx.emit(graph.ReshapeOp(window, (length, 1)))
        taken = ctx.emit(graph.MulOp(taken, factor))
    rows = ctx.emit(graph.ReshapeOp(taken, (batch * frames, length * parts)))
    result = _transformed(ctx, rows, length, parts, length, inverse=False, onesided=onesided)
    bins = ctx.shape(result)[1] // 2
    return ctx.emit(graph.ReshapeOp(result, (batch, frames, bins, 2)))


@handler("MelWeightMatrix")
def mel_weight_matrix(ctx: NodeContext) -> SSAValue:
    """Triangular filters, evenly spaced on the mel scale, that sum a spectrum into bands."""
    bands = ctx.constant_int(0, "the number of bands")
    length = ctx.constant_int(1, "the length of the transform")
    rate = ctx.constant_int(2, "the sample rate")
    low, high = (float(ctx.constant(i, "an edge").reshape(-1)[0]) for i in (3, 4))
    bins = length // 2 + 1
    ctx.check(0 < bands <= 1 << 16 and 0 < bins <= 1 << 16 and rate > 0, "sizes are out of range")
    # The operator's definition has one step per edge, not one less.
    step = (_mel(high) - _mel(low)) / (bands + 2)
    edges = _mel(low) + np.arange(bands + 2) * step
    hertz = 700 * (np.power(10, edges / 2595) - 1)
    at = np.floor((length + 1) * hertz / rate).astype(np.int64)
    matrix = np.zeros((bins, bands))
    for band in range(bands):
        first, middle, last = (int(v) for v in at[band : band + 3])
        if first == middle and 0 <= middle < bins:
            matrix[middle, band] = 1
        for place in range(max(first, 0), min(middle + 1, bins)):
            if first != middle:
                matrix[place, band] = (place - first) / (middle - first)
        for place in range(max(middle, 0), min(last, bins)):
            if middle != last:
                matrix[place, band] = (last - place) / (last - middle)
    dtype = ctx.get_element_type("output_datatype")
    value = ctx.array(matrix.astype(np.float32))
    return value if dtype in (None, f32) else ctx.emit(graph.CastOp(value, dtype))


def _mel(hertz: float) -> float:
    return 2595 * math.log10(1 + hertz / 700)
