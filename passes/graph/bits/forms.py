"""Contractions of values of few bits, on words of their bits or on tables of sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.types import Array, shape_of
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.dialects.graph.packed.bit_conv import BitConvOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.pack_bits import PackBitsOp
from tcopt.dialects.graph.packed.packed_matmul import PackedMatmulOp
from tcopt.dialects.graph.packed.sum_tables import SumTablesOp, TableShape
from tcopt.dialects.graph.packed.table_conv import TableConvOp
from tcopt.dialects.intrinsics.bit_dots import WORD
from tcopt.support.registries.rule_table import OpFunction


class BitNumbers(NamedTuple):
    """Values of an operand in its shape, as integers whose low `bits` bits are significant."""

    codes: SSAValue
    bits: int
    signed: bool


class BitForm(ABC):
    """A contraction on words of bits, or on tables of sums.

    The ops are `graph.bit_conv`, or `graph.table_conv`, whose tables of sums of data are indexed by
    bits of weights. Masks and sums are returned in shapes that broadcast against the tensors they
    apply to.
    """

    pad: int | None = None
    """Value of the padding around the data; None without pads."""

    @abstractmethod
    def used_channels(self, weights: Array) -> Array:
        """Return a mask of the data elements that are multiplied by some non-zero weight."""

    @abstractmethod
    def used_weights(self, weights: Array) -> Array:
        """Return a mask of the weights whose channel and output both have a non-zero weight."""

    @abstractmethod
    def sums(self, weights: Array) -> Array:
        """Return, for each element of the result, the sum of the weights it depends on."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of result elements that each weight contributes to."""

    @abstractmethod
    def matrix(self, weights: Array) -> Array | None:
        """Return weights as [outputs, channels, taps...]; None for grouped ops."""

    def around(self, codes: SSAValue, value: SSAValue | None) -> Operation | None:
        """Return the data padded with a value; None if there are no pads."""
        return None

    def takes_blocks_of(self, lanes: int) -> bool:
        """Whether sums may be computed in blocks of `lanes` outputs."""
        return True

    @abstractmethod
    def in_tables(
        self, codes: SSAValue, shape: TableShape, *, bias: int, exclusive: bool
    ) -> list[Operation]:
        """Return ops for the data tables of `graph.table_conv`; additional channels are 0."""

    @abstractmethod
    def looked_up(
        self, tables: SSAValue, indices: SSAValue, *, bits: int, signed: bool
    ) -> list[Operation]:
        """Return ops that compute the contraction's result with `graph.table_conv`.

        Args:
            indices: table indices of all outputs, in blocks of any size.
        """

    @abstractmethod
    def steps(self, planes: int) -> int:
        """Return the number of products of a data word and a weight word per result element."""

    @abstractmethod
    def product(self, data: BitNumbers, weights: BitNumbers, *, exclusive: bool) -> list[Operation]:
        """Return ops that compute the contraction's result with `graph.bit_conv`."""


bit_form: OpFunction[[], BitForm | None] = OpFunction(__name__, None)
"""The form of a contraction on words of bits, for operands of few bits; None if there is none."""


class BlockedConvForm(BitForm):
    """Form of a convolution [N, C / a, positions..., a] by
    [O / b, C / groups / a, kernel..., a, b]."""

    def __init__(self, op: BlockedConvOp):
        self.op = op
        self.pad = op.pad_value.value.data if op.window.is_padded else None

    def _any(self, weights: Array, *, outputs: bool) -> Array:
        """Return whether any weight of each output, or of each channel, is non-zero, as an array
        [groups, O / groups / b, C / a, taps, a, b] with extents of 1 along the reduced axes."""
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

    @property
    def rows(self) -> int:
        return prod(self.op.shape) // (self.op.shape[1] * self.op.shape[-1])

    def matrix(self, weights: Array) -> Array | None:
        if self.op.group_count > 1:
            return None
        placed = np.moveaxis(weights, (-1, -2), (1, 3))
        outputs, channels = prod(placed.shape[:2]), prod(placed.shape[2:4])
        return placed.reshape(outputs, channels, *placed.shape[4:])

    def around(self, codes: SSAValue, value: SSAValue | None) -> Operation | None:
        window = self.op.window
        if not window.is_padded:
            return None
        return PadOp(codes, value, low=(0, 0, *window.low, 0), high=(0, 0, *window.high, 0))

    def takes_blocks_of(self, lanes: int) -> bool:
        return lanes % self.op.shape[-1] == 0

    def in_tables(
        self, codes: SSAValue, shape: TableShape, *, bias: int, exclusive: bool
    ) -> list[Operation]:
        ops: list[Operation] = []
        _, blocks, *places, lanes = shape_of(codes)
        if (missing := -(-shape.terms // lanes) - blocks) > 0:
            rest = [0] * (len(places) + 1)
            ops.append(PadOp(codes, low=(0, 0, *rest), high=(0, missing, *rest)))
            codes = ops[-1].results[0]
        return [*ops, SumTablesOp(codes, shape, bias=bias, exclusive=exclusive)]

    def looked_up(
        self, tables: SSAValue, indices: SSAValue, *, bits: int, signed: bool
    ) -> list[Operation]:
        window = self.op.window
        sums = TableConvOp(
            tables,
            indices,
            bits=bits,
            strides=window.strides,
            dilations=window.dilations,
            signed=signed,
        )
        count, blocks, *places, lanes = shape_of(sums.result)
        outputs, block = self.op.shape[1], self.op.shape[-1]
        rank, per = len(places), lanes // block
        split = ReshapeOp(sums, (count, blocks, *places, per, block))
        moved = TransposeOp(split, [0, 1, rank + 2, *range(2, rank + 2), rank + 3])
        joined = ReshapeOp(moved, (count, blocks * per, *places, block))
        ops: list[Operation] = [sums, split, moved, joined]
        if blocks * per != outputs:
            ops.append(SliceOp(joined, [0] * (rank + 3), self.op.shape))
        return ops

    def steps(self, planes: int) -> int:
        _, blocks, *taps, lanes, _ = shape_of(self.op.w)
        return planes * prod(taps) * -(-blocks * lanes // WORD)

    def product(self, data: BitNumbers, weights: BitNumbers, *, exclusive: bool) -> list[Operation]:
        words = PackBitsOp(data.codes, data.bits)
        # [O / b, C / a, kernel..., b, a] is packed to words [O / b, kernel..., b, W, bits].
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
    """Form of a product [..., M, K] by panels [P, K, b], as a pointwise convolution of M
    elements."""

    def __init__(self, op: PackedMatmulOp):
        self.op = op

    def used_channels(self, weights: Array) -> Array:
        return (weights != 0).any((0, 2))

    def used_weights(self, weights: Array) -> Array:
        return (weights != 0).any((0, 2), keepdims=True) & (weights != 0).any(1, keepdims=True)

    def sums(self, weights: Array) -> Array:
        return weights.astype(np.int64).sum(1).ravel()[: self.op.shape[-1]]

    @property
    def rows(self) -> int:
        return prod(self.op.shape[:-1])

    def matrix(self, weights: Array) -> Array | None:
        columns = np.moveaxis(weights, 1, 2).reshape(-1, weights.shape[1], 1)
        return columns[: self.op.shape[-1]]

    def in_tables(
        self, codes: SSAValue, shape: TableShape, *, bias: int, exclusive: bool
    ) -> list[Operation]:
        *lead, depth = shape_of(codes)
        rows, rank = prod(lead), len(lead)
        ops: list[Operation] = []
        if (missing := shape.terms - depth) > 0:
            ops.append(PadOp(codes, low=[0] * (rank + 1), high=[*[0] * rank, missing]))
            codes = ops[-1].results[0]
            depth += missing
        laid = ReshapeOp(codes, (rows, 1, depth))
        tables = SumTablesOp(laid, shape, bias=bias, exclusive=exclusive)
        return [*ops, laid, tables, ReshapeOp(tables, (1, rows, *shape.shape))]

    def looked_up(
        self, tables: SSAValue, indices: SSAValue, *, bits: int, signed: bool
    ) -> list[Operation]:
        sums = TableConvOp(tables, indices, bits=bits, signed=signed)
        return [sums, *self._rows_of(sums)]

    def _rows_of(self, sums: Operation) -> list[Operation]:
        """Return ops that convert sums [1, outputs / b, rows, b] to the shape of the result."""
        _, blocks, rows, lanes = shape_of(sums.results[0])
        moved = TransposeOp(sums, [0, 2, 1, 3])
        flat = ReshapeOp(moved, (rows, blocks * lanes))
        ops: list[Operation] = [moved, flat]
        if blocks * lanes != self.op.shape[-1]:
            ops.append(SliceOp(flat, [0, 0], (rows, self.op.shape[-1])))
        return [*ops, ReshapeOp(ops[-1].results[0], self.op.shape)]

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
        sums = BitConvOp(
            x,
            w,
            exclusive=exclusive,
            data_signed=data.signed,
            weights_signed=weights.signed,
        )
        return [*ops, sums, *self._rows_of(sums)]


@bit_form.rule_for(BlockedConvOp)
def _blocked_conv(op: BlockedConvOp) -> BitForm | None:
    """Return the form for data in blocks of channels that fit into words."""
    if op.is_plain or op.is_depthwise or op.group > 1 or shape_of(op.w)[-2] > WORD:
        return None
    return BlockedConvForm(op)


@bit_form.rule_for(PackedMatmulOp)
def _packed_matmul(op: PackedMatmulOp) -> BitForm | None:
    """Return the form for untransposed rows and panels of one matrix."""
    if op.batch_rank or op.transpose_a is not None or op.group > 1:
        return None
    return PackedMatmulForm(op)
