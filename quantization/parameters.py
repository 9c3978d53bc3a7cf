"""Scales and zero points: integers of 8 bits for real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEAST_SCALE = float(np.finfo(np.float32).tiny) * 2**24
"""Smaller scales would make subnormal products; what has a smaller range is taken for zero."""

_BIAS_LIMIT = 2**30


class Integer(Enum):
    """The integers that activations are stored in."""

    INT8 = "int8"
    UINT8 = "uint8"

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest."""
        return (-128, 127) if self is Integer.INT8 else (0, 255)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.value)


@dataclass(frozen=True)
class Parameters:
    """`real = (integer - zero) * scale`, with integers from `low` to `high`.

    Attributes:
        scale: f32, one number, or one for each place along `axis`.
        zero: of the integers' type, as many.
        axis: None where one scale is all there is.
    """

    scale: Array
    zero: Array
    axis: int | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer that are used."""
        low, high = (int(n) for n in (np.iinfo(self.zero.dtype).min, np.iinfo(self.zero.dtype).max))
        return low, high

    def laid(self, values: Array, rank: int) -> Array:
        """Scales or zero points as they broadcast against a tensor."""
        if self.axis is None:
            return values.reshape(())
        shape = [1] * rank
        shape[self.axis] = -1
        return values.reshape(shape)

    def quantize(self, x: Array) -> Array:
        """The integers of real numbers, as QuantizeLinear computes them."""
        scale, zero = self.laid(self.scale, x.ndim), self.laid(self.zero, x.ndim)
        value = np.rint(x.astype(np.float32) / scale) + zero.astype(np.float32)
        return np.clip(value, *self.limits).astype(self.zero.dtype)

    def dequantize(self, integers: Array) -> Array:
        """The real numbers of integers."""
        rank = integers.ndim
        scale, zero = self.laid(self.scale, rank), self.laid(self.zero, rank)
        centred = integers.astype(np.int32) - zero.astype(np.int32)
        return (centred.astype(np.float32) * scale).astype(np.float32)

    def rounded(self, x: Array) -> Array:
        """The real numbers that are nearest among those that integers stand for."""
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
    """Parameters whose integers cover ranges; zero is always one of their numbers.

    Args:
        low, high: finite, of each range; ranges without extent get a scale of 1.
        symmetric: whether the range around zero is as wide on both sides, so that the zero point is
            the middle of the integers.
        power_of_two: whether scales are powers of two, as shifts compute them.
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
    """A bias as integers of 32 bits of a scale; None if they would not hold it."""
    value = np.rint(bias.astype(np.float64) / scale.astype(np.float64))
    if not np.all(np.abs(value) < _BIAS_LIMIT):
        return None
    return value.astype(np.int32)
