"""How numbers of few bits are spelled by bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcopt.dialects.graph.types import Array

MOST_BITS = 4
"""Bits of numbers of which products are made bit by bit."""


@dataclass(frozen=True)
class DataEncoding:
    """Numbers as `offset + step * code`.

    Attributes:
        bits: of a code.
        signed: whether codes are in two's complement.
    """

    bits: int
    signed: bool
    offset: int
    step: int

    @property
    def sum_of_bits(self) -> int:
        """The sum of what the bits of a code stand for."""
        return -1 if self.signed else (1 << self.bits) - 1

    def __str__(self) -> str:
        return f"{self.bits} {'signed ' if self.signed else ''}bits"


def data_encoding(numbers: Array, pad: int | None) -> DataEncoding | None:
    """The encoding of fewest bits for some integers; None if these are too many.

    Args:
        pad: the number that stands around the data, whose code is 0; None without pads.
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
    """Weights by their bits.

    Attributes:
        codes: of all weights; 0 in channels of data that have none.
        bits: of a code.
        signed: whether codes are in two's complement.
        exclusive: whether a bit stands for -1 or 1 times a power of two, not for 0 or 1.
        step: what a code is to be multiplied by.
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
    """The encoding of fewest bits for weights; None if these are too many.

    Args:
        live: which weights are of a channel of data and one of the result, the others being zeros
            that fill up blocks; it broadcasts against them.
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
    """The different numbers of an array of integers of a few bits, in order."""
    if not numbers.size:
        return np.zeros(0, np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    is_there = np.zeros(high - low + 1, np.bool_)
    is_there[numbers.astype(np.int64).ravel() - low] = True
    return np.flatnonzero(is_there) + low


def _bits(codes: Array) -> int:
    """Bits that hold some integers, in two's complement where one is negative."""
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if low >= 0:
        return max(high.bit_length(), 1)
    return max((-low - 1).bit_length(), high.bit_length()) + 1


@dataclass(frozen=True)
class TableEncoding:
    """Numbers as `offset + step * code`, for tables of sums.

    Attributes:
        low, high: the least and the greatest code.
        pad_code: of what stands around the data; 0 without pads.
    """

    offset: int
    step: int
    low: int
    high: int
    pad_code: int = 0

    def bias(self, numbers: int, exclusive: bool) -> int:
        """What sums of so many codes have added, so that none is negative.

        Args:
            exclusive: whether a code that is not added is taken away.
        """
        return numbers * max(-self.low, self.high) if exclusive else numbers * max(-self.low, 0)

    def entry_bits(self, numbers: int, exclusive: bool) -> int:
        """Bits of such a sum."""
        bias = self.bias(numbers, exclusive)
        return max(bias + (bias if exclusive else numbers * self.high), 1).bit_length()

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


def table_encoding(numbers: Array, pad: int | None, exclusive: bool) -> TableEncoding:
    """The encoding of some integers whose sums take the fewest bits.

    Args:
        pad: the number that stands around the data; None without pads.
        exclusive: whether sums have each code with either sign.
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
