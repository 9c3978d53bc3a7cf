"""Fourier transforms that are too long for a single matrix product.

A composite length is computed in two steps (Bailey, "FFTs in External or Hierarchical Memory",
1990). A length with a large prime factor is computed as a convolution with a chirp (Bluestein, "A
linear filtering approach to the computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext

Complex = NDArray[np.number[Any]]

_STEP_LIMIT = 1 << 10
"""Maximum length of a transform that is a single product within a long one."""


def transformed(ctx: NodeContext, x: SSAValue, *, inverse: bool) -> SSAValue:
    """Transform complex signals [signals, length, 2]; the inverse includes its scale factor."""
    length = ctx.shape(x)[1]
    if length <= _STEP_LIMIT:
        signals = ctx.shape(x)[0]
        rows = ctx.emit(graph.ReshapeOp(x, (signals, 2 * length)))
        matrix = _parts(_waves(length, inverse=inverse))
        product = ctx.emit(graph.MatmulOp(rows, ctx.literal(matrix, x)))
        return ctx.emit(graph.ReshapeOp(product, (signals, length, 2)))
    factor = _factor(length)
    if factor is None:
        return _by_chirp(ctx, x, inverse=inverse)
    return _in_two_steps(ctx, x, factor, inverse=inverse)


def multiplied(ctx: NodeContext, x: SSAValue, factors: Complex) -> SSAValue:
    """Multiply complex numbers [..., 2] by complex constants of the same or lower rank."""
    shape = ctx.shape(x)
    turned = ctx.emit(graph.GatherOp(x, ctx.array(np.array([1, 0])), axis=len(shape) - 1))
    same = np.stack([factors.real, factors.real], axis=-1)
    crossed = np.stack([-factors.imag, factors.imag], axis=-1)
    first = ctx.emit(graph.MulOp(x, ctx.literal(same, x)))
    second = ctx.emit(graph.MulOp(turned, ctx.literal(crossed, x)))
    return ctx.emit(graph.AddOp(first, second))


def resized(ctx: NodeContext, x: SSAValue, length: int) -> SSAValue:
    """Crop or zero-pad signals [signals, any, parts] to a length."""
    signals, given, parts = ctx.shape(x)
    if given >= length:
        return ctx.emit(graph.SliceOp(x, [0, 0, 0], (signals, length, parts)))
    zeros = np.broadcast_to(np.float32(0), (signals, length - given, parts))
    return ctx.emit(graph.ConcatOp([x, ctx.literal(zeros, x)], axis=1))


def _in_two_steps(ctx: NodeContext, x: SSAValue, rows: int, *, inverse: bool) -> SSAValue:
    """Transform with the length as a matrix: columns, twiddle factors, then rows."""
    signals, length, _ = ctx.shape(x)
    columns = length // rows
    x = _moved(ctx, x, (signals, rows, columns, 2), (0, 2, 1, 3), (signals * columns, rows, 2))
    x = transformed(ctx, x, inverse=inverse)
    x = ctx.emit(graph.ReshapeOp(x, (signals, columns, rows, 2)))
    sign = 1 if inverse else -1
    angles = 2 * np.pi * np.outer(np.arange(columns), np.arange(rows)) / length
    x = multiplied(ctx, x, np.exp(sign * 1j * angles))
    x = _moved(ctx, x, (signals, columns, rows, 2), (0, 2, 1, 3), (signals * rows, columns, 2))
    x = transformed(ctx, x, inverse=inverse)
    return _moved(ctx, x, (signals, rows, columns, 2), (0, 2, 1, 3), (signals, length, 2))


def _by_chirp(ctx: NodeContext, x: SSAValue, *, inverse: bool) -> SSAValue:
    """Transform by convolution with a chirp, using transforms of power-of-two length."""
    length = ctx.shape(x)[1]
    padded = 1 << (2 * length - 2).bit_length()
    places = np.arange(length)
    sign = 1 if inverse else -1
    # Squares are reduced modulo the period, so that they are exact.
    chirp = np.exp(sign * 1j * np.pi * (places * places % (2 * length)) / length)
    kernel = np.zeros(padded, np.complex128)
    kernel[:length] = chirp.conj()
    kernel[padded - length + 1 :] = chirp[1:][::-1].conj()
    x = resized(ctx, multiplied(ctx, x, chirp), padded)
    x = multiplied(ctx, transformed(ctx, x, inverse=False), np.fft.fft(kernel))
    x = resized(ctx, transformed(ctx, x, inverse=True), length)
    return multiplied(ctx, x, chirp / length if inverse else chirp)


def _moved(
    ctx: NodeContext, x: SSAValue, shape: Sequence[int], order: Sequence[int], result: Sequence[int]
) -> SSAValue:
    x = ctx.emit(graph.ReshapeOp(x, shape))
    return ctx.emit(graph.ReshapeOp(ctx.emit(graph.TransposeOp(x, order)), result))


def _factor(length: int) -> int | None:
    """Return the factor closest to the square root; None if a prime factor is too large."""
    rest, prime = length, 2
    while prime <= _STEP_LIMIT:
        while rest % prime == 0:
            rest //= prime
        prime += 1
    if rest > 1:
        return None
    return next(f for f in range(math.isqrt(length), 0, -1) if length % f == 0)


def _waves(length: int, *, inverse: bool) -> np.ndarray:
    """Return the complex matrix of a transform."""
    sign, scale = (1, 1 / length) if inverse else (-1, 1.0)
    places = np.arange(length)
    angles = 2 * np.pi * (np.outer(places, places) % length) / length
    return np.exp(sign * 1j * angles) * scale


def _parts(matrix: Complex) -> np.ndarray:
    """Convert a complex matrix to a real one that acts on (real, imaginary) pairs."""
    real, imaginary = matrix.real, matrix.imag
    own = np.stack([np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)], 1)
    return own.reshape(2 * matrix.shape[0], 2 * matrix.shape[1])
