"""What products of numbers of few bits are on words of their bits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.bit_conv import BitConvOp
from tcopt.dialects.graph.pack_bits import PackBitsOp
from tcopt.dialects.graph.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.slice import PadOp, SliceOp
from tcopt.dialects.graph.types import Array, shape_of
from tcopt.dialects.intrinsics.bit_dots import WORD

if TYPE_CHECKING:
    from tcopt.dialects.graph.blocked_conv import BlockedConvOp
    from tcopt.dialects.graph.packed_matmul import PackedMatmulOp


class BitNumbers(NamedTuple):
    """An operand's numbers, in the operand's place, as integers whose last bits count."""

    codes: SSAValue
    bits: int
    signed: bool


class BitForm(ABC):
    """A contraction as one on words of bits (`graph.bit_conv`).

    Masks and sums are in the shape that broadcasts against what they are for.
    """

    pad: int | None = None
    """The number that stands around the data; None without pads."""

    @abstractmethod
    def used_channels(self, weights: Array) -> Array:
        """Which elements of the data meet a weight that is not 0."""

    @abstractmethod
    def used_weights(self, weights: Array) -> Array:
        """Which weights are of a channel and of an output that have others than 0."""

    @abstractmethod
    def sums(self, weights: Array) -> Array:
        """The sum of all weights of each element of the result."""

    @abstractmethod
    def steps(self, planes: int) -> int:
        """Words of data times words of weights that one element of the result takes."""

    @abstractmethod
    def product(self, data: BitNumbers, weights: BitNumbers, *, exclusive: bool) -> list[Operation]:
        """Ops for the sums of `graph.bit_conv` in the place of the contraction's result."""


class BlockedConvForm(BitForm):
    """Of a convolution [N, C / a, places..., a] by [O / b, C / groups / a, kernel..., a, b]."""

    def __init__(self, op: BlockedConvOp):
        self.op = op
        self.pad = op.pad_value.value.data if op.window.is_padded else None

    def _any(self, weights: Array, *, outputs: bool) -> Array:
        """Of [groups, O / groups / b, C / a, taps, a, b] where another axis has one that is not 0:
        each output, or each channel."""
        groups = self.op.group_count
        blocks, words, *taps, inner, lanes = weights.shape
        shape = (groups, blocks // groups, words, prod(taps), inner, lanes)
        axes = (2, 3, 4) if outputs else (1, 3, 5)
        return (weights.reshape(shape) != 0).any(axes, keepdims=True)

    def used_channels(self, weights: Array) -> Array:
        found = self._any(weights, outputs=False)
        rank = self.op.spatial_rank
        return found.reshape(1, -1, *[1] * rank, found.shape[4])

    def used_weights(self, weights: Array) -> Array:
        both = self._any(weights, outputs=False) & self._any(weights, outputs=True)
        groups, blocks, words, _, inner, lanes = both.shape
        rank = self.op.spatial_rank
        return both.reshape(groups * blocks, words, *[1] * rank, inner, lanes)

    def sums(self, weights: Array) -> Array:
        total = weights.astype(np.int64).sum(tuple(range(1, weights.ndim - 1)))
        return total.reshape(1, len(total), *[1] * self.op.spatial_rank, -1)

    def steps(self, planes: int) -> int:
        _, blocks, *taps, lanes, _ = shape_of(self.op.w)
        return planes * prod(taps) * -(-blocks * lanes // WORD)

    def product(self, data: BitNumbers, weights: BitNumbers, *, exclusive: bool) -> list[Operation]:
        words = PackBitsOp(data.codes, data.bits)
        # [O / b, C / a, kernel..., b, a], whose words are [O / b, kernel..., b, W, bits].
        rank, taps = len(shape_of(weights.codes)), range(2, 2 + self.op.spatial_rank)
        side = TransposeOp(weights.codes, [0, 1, *taps, rank - 1, rank - 2])
        packed = PackBitsOp(side, weights.bits)
        placed = TransposeOp(packed, [0, rank - 2, *range(1, rank - 3), rank - 1, rank - 3])
        window = self.op.window
        product = BitConvOp(
            words,
            placed,
            strides=window.strides,
            pads=(*window.low, *window.high),
            dilations=window.dilations,
            groups=self.op.group_count,
            exclusive=exclusive,
            data_signed=data.signed,
            weights_signed=weights.signed,
        )
        return [words, side, packed, placed, product]


class PackedMatmulForm(BitForm):
    """Of a product [..., M, K] by panels [P, K, b]: a convolution of M single elements."""

    def __init__(self, op: PackedMatmulOp):
        self.op = op

    def used_channels(self, weights: Array) -> Array:
        return (weights != 0).any((0, 2))

    def used_weights(self, weights: Array) -> Array:
        return (weights != 0).any((0, 2), keepdims=True) & (weights != 0).any(1, keepdims=True)

    def sums(self, weights: Array) -> Array:
        return weights.astype(np.int64).sum(1).ravel()[: self.op.shape[-1]]

    def steps(self, planes: int) -> int:
        return planes * -(-shape_of(self.op.panels)[1] // WORD)

    def product(self, data: BitNumbers, weights: BitNumbers, *, exclusive: bool) -> list[Operation]:
        ops: list[Operation] = []

        def add(op: Operation) -> SSAValue:
            ops.append(op)
            return op.results[0]

        *lead, depth = shape_of(data.codes)
        panels, _, lanes = shape_of(weights.codes)
        rows, words = prod(lead), -(-depth // WORD)
        codes, stored = data.codes, weights.codes
        if missing := words * WORD - depth:
            rank = len(lead)
            codes = add(PadOp(codes, low=[0] * (rank + 1), high=[*[0] * rank, missing]))
            stored = add(PadOp(stored, low=[0, 0, 0], high=[0, missing, 0]))
        x = add(PackBitsOp(add(ReshapeOp(codes, (rows, words, WORD))), data.bits))
        x = add(ReshapeOp(x, (1, rows, words, data.bits)))
        split = add(ReshapeOp(stored, (panels, words, WORD, lanes)))
        packed = add(PackBitsOp(add(TransposeOp(split, [0, 1, 3, 2])), weights.bits))
        w = add(TransposeOp(packed, [0, 2, 3, 1]))
        w = add(ReshapeOp(w, (panels, words, 1, weights.bits, lanes)))
        sums = add(
            BitConvOp(
                x,
                w,
                exclusive=exclusive,
                data_signed=data.signed,
                weights_signed=weights.signed,
            )
        )
        result = add(ReshapeOp(add(TransposeOp(sums, [0, 2, 1, 3])), (rows, panels * lanes)))
        if panels * lanes != self.op.shape[-1]:
            result = add(SliceOp(result, [0, 0], (rows, self.op.shape[-1])))
        add(ReshapeOp(result, self.op.shape))
        return ops
