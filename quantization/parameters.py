"""Scales and zero points of 8-bit quantisation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEAST_SCALE = float(np.finfo(np.float32).tiny) * 2**24
"""Smallest scale for which products are not subnormal; smaller ranges are treated as zero."""

_BIAS_LIMIT = 2**30


class Integer(Enum):
    """Integer types of activations."""

    INT8 = "int8"
    UINT8 = "uint8"

    @property
    def limits(self) -> tuple[int, int]:
        """Minimum and maximum of the type."""
        return (-128, 127) if self is Integer.INT8 else (0, 255)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.value)


@dataclass(frozen=True)
class Parameters:
    """Quantisation parameters: `real = (integer - zero) * scale`, for integers within `limits`.

    Attributes:
        scale: f32; a scalar, or one element for each index along `axis`.
        zero: zero points, in the integer type and with the shape of `scale`.
        axis: axis of per-channel scales; None for a single scale.
    """

    scale: Array
    zero: Array
    axis: int | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """Minimum and maximum of the integers."""
        low, high = (int(n) for n in (np.iinfo(self.zero.dtype).min, np.iinfo(self.zero.dtype).max))
        return low, high

    def laid(self, values: Array, rank: int) -> Array:
        """Reshape scales or zero points so that they broadcast against a tensor."""
        if self.axis is None:
            return values.reshape(())
        shape = [1] * rank
        shape[self.axis] = -1
        return values.reshape(shape)

    def quantize(self, x: Array) -> Array:
        """Quantise real numbers in the same way as QuantizeLinear."""
        scale, zero = self.laid(self.scale, x.ndim), self.laid(self.zero, x.ndim)
        value = np.rint(x.astype(np.float32) / scale) + zero.astype(np.float32)
        return np.clip(value, *self.limits).astype(self.zero.dtype)

    def dequantize(self, integers: Array) -> Array:
        """Convert integers to real numbers."""
        rank = integers.ndim
        scale, zero = self.laid(self.scale, rank), self.laid(self.zero, rank)
        centred = integers.astype(np.int32) - zero.astype(np.int32)
        return (centred.astype(np.float32) * scale).astype(np.float32)

    def rounded(self, x: Array) -> Array:
        """Round to the nearest representable real numbers."""
        return self.dequantize(self.quantize(x))


def parameters_for(
    low: Array | float,
    high: Array | float,
    integer: Integer,
    *,
    symmetric: bool = False,
    power_of_two: bool = False,
    axis: int | None = None,
) -> Parameters:
    """Return parameters whose integers cover the given ranges; zero is always representable.

    Args:
        low, high: finite bounds of each range; empty ranges get a scale of 1.
        symmetric: whether ranges are extended to be symmetric around zero, which puts the zero
            point in the middle of the integers.
        power_of_two: whether scales are powers of two, so that scaling is a shift.
    """
    least, most = integer.limits
    lows = np.minimum(np.asarray(low, np.float64), 0.0)
    highs = np.maximum(np.asarray(high, np.float64), 0.0)
    if symmetric:
        extent = np.maximum(-lows, highs)
        scale, zero = extent / 127, np.full(extent.shape, (least + most + 1) // 2, np.float64)
    else:
        scale = (highs - lows) / (most - least)
        zero = np.zeros_like(scale)
    scale = np.where(scale >= LEAST_SCALE, scale, 1.0)
    if power_of_two:
        scale = np.exp2(np.ceil(np.log2(scale) - 1e-9))
    scale = np.minimum(scale, float(np.finfo(np.float32).max)).astype(np.float32)
    if not symmetric:
        zero = np.clip(np.rint(least - lows / scale), least, most)
    return Parameters(scale, zero.astype(integer.dtype), axis)


def bias_integers(bias: Array, scale: Array) -> Array | None:
    """Return a bias as 32-bit integers for a scale; None if they would overflow."""
    value = np.rint(bias.astype(np.float64) / scale.astype(np.float64))
    if not np.all(np.abs(value) < _BIAS_LIMIT):
        return None
    return value.astype(np.int32)
