"""Encodings of few-bit integers as an offset, a step and a code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcopt.dialects.graph.core.types import Array

MOST_BITS = 4
"""Maximum number of bits of bit-serial operands."""


@dataclass(frozen=True)
class DataEncoding:
    """Encoding of data as `offset + step * code`.

    Attributes:
        bits: number of bits of a code.
        signed: whether codes are in two's complement.
    """

    bits: int
    signed: bool
    offset: int
    step: int

    @property
    def sum_of_bits(self) -> int:
        """Sum of the weights (powers of two) of all bits of a code."""
        return -1 if self.signed else (1 << self.bits) - 1

    def __str__(self) -> str:
        return f"{self.bits} {'signed ' if self.signed else ''}bits"


def data_encoding(numbers: Array, pad: int | None) -> DataEncoding | None:
    """Return the encoding of a set of integers with the fewest bits; None if there are too many.

    Args:
        pad: pad value of the data, whose code is 0; None without pads.
    """
    numbers = numbers.astype(np.int64)
    offset = int(numbers.min()) if pad is None else pad
    codes = np.unique(numbers - offset)
    step = max(int(np.gcd.reduce(codes)), 1)
    codes //= step
    signed = bool(codes.min() < 0)
    bits = _bits(codes)
    return DataEncoding(bits, signed, offset, step) if bits <= MOST_BITS else None


@dataclass(frozen=True)
class WeightEncoding:
    """Encoding of weights as `step * code`.

    Attributes:
        codes: codes of all weights; 0 in padding channels.
        bits: number of bits of a code.
        signed: whether codes are in two's complement.
        exclusive: whether a bit stands for -1 or 1 times a power of two, instead of 0 or 1.
        step: factor of a code.
    """

    codes: Array
    bits: int
    signed: bool
    exclusive: bool
    step: int

    def __str__(self) -> str:
        kind = "bits of -1 and 1" if self.exclusive else "signed bits" if self.signed else "bits"
        return f"{self.bits} {kind}"


def weight_encoding(weights: Array, live: Array) -> WeightEncoding | None:
    """Return the encoding with the fewest bits for weights; None if it needs too many bits.

    Args:
        live: mask of the weights of real input and output channels, the others being zeros that
            fill blocks; it broadcasts against them.
    """
    step = max(int(np.gcd.reduce(_distinct(weights))), 1)
    codes = weights.astype(np.int32) // step if step > 1 else weights.astype(np.int32)
    found = _distinct(codes)
    plain = _bits(found)
    alive = np.broadcast_to(live, weights.shape)
    numbers = found if alive.all() else _distinct(codes[alive])
    if numbers.size and (numbers % 2 == 1).all():
        bits = int(max(abs(numbers.min()), numbers.max())).bit_length()
        if bits < plain and bits <= MOST_BITS:
            made = np.where(alive, (codes + (1 << bits) - 1) >> 1, 0)
            return WeightEncoding(made.astype(np.uint8), bits, False, True, step)
    if plain > MOST_BITS:
        return None
    signed = bool(found.min(initial=0) < 0)
    return WeightEncoding(codes.astype(np.int8), plain, signed, False, step)


def _distinct(numbers: Array) -> Array:
    """Return the sorted distinct values of an array of integers in a small range."""
    if not numbers.size:
        return np.zeros(0, np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    is_there = np.zeros(high - low + 1, np.bool_)
    is_there[numbers.astype(np.int64).ravel() - low] = True
    return np.flatnonzero(is_there) + low


def _bits(codes: Array) -> int:
    """Return the number of bits that hold all codes, in two's complement if one is negative."""
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if low >= 0:
        return max(high.bit_length(), 1)
    return max((-low - 1).bit_length(), high.bit_length()) + 1


@dataclass(frozen=True)
class TableEncoding:
    """Encoding of data as `offset + step * code`, for tables of sums.

    Attributes:
        low, high: minimum and maximum code.
        pad_code: code of the pad value; 0 without pads.
    """

    offset: int
    step: int
    low: int
    high: int
    pad_code: int = 0

    def bias(self, numbers: int, exclusive: bool) -> int:
        """Return the bias that makes all sums of `numbers` codes non-negative.

        Args:
            exclusive: whether codes that are not added are subtracted.
        """
        return numbers * max(-self.low, self.high) if exclusive else numbers * max(-self.low, 0)

    def entry_bits(self, numbers: int, exclusive: bool) -> int:
        """Return the number of bits of a biased sum of `numbers` codes."""
        bias = self.bias(numbers, exclusive)
        return max(bias + (bias if exclusive else numbers * self.high), 1).bit_length()

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


def table_encoding(numbers: Array, pad: int | None, exclusive: bool) -> TableEncoding:
    """Return the encoding of a set of integers whose sums need the fewest bits.

    Args:
        pad: pad value of the data; None without pads.
        exclusive: whether sums contain each code with either sign.
    """
    found = numbers.astype(np.int64)
    if pad is not None:
        found = np.append(found, pad)
    low, high = int(found.min()), int(found.max())
    step = max(int(np.gcd.reduce(np.unique(found - low))), 1)
    most = (high - low) // step
    middle = (most + 1) // 2 if exclusive else 0
    offset = low + step * middle
    code = 0 if pad is None else (pad - offset) // step
    return TableEncoding(offset, step, -middle, most - middle, code)
