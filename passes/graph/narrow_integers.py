"""Contractions of centred integers on operands of 8 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i8, i16, i32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.binary import AddOp, MulOp, SubOp
from tcopt.dialects.graph.cast import CastOp
from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.conv import ConvOp
from tcopt.dialects.graph.interfaces import GraphOp, Limits
from tcopt.dialects.graph.reduce import ReduceOp
from tcopt.dialects.graph.shape import ReshapeOp
from tcopt.dialects.graph.slice import PadOp
from tcopt.dialects.graph.types import element_type, shape_of
from tcopt.dialects.graph.weights import WeightStore, weights_of
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.target import gpu_target_of
from tcopt.passes.graph.integer_ranges import IntegerRanges
from tcopt.support.remarks import remark

_UI8 = IntegerType(8, Signedness.UNSIGNED)


@dataclass(frozen=True)
class NarrowIntegers(ModulePass):
    """Contractions of centred integers take them in 8 bits, for dot products of bytes.

    Centred integers, 8-bit ones less their zero point, need 9 bits in general. Those after a
    ReLU are not negative, and fit `ui8`; those without a zero point fit `i8`. From others a
    number is taken so that they fit `i8`, which adds that number times the sum of a channel's
    weights to the sums, and is what pads are then filled with. Weights are constants within
    `i8`. Only targets with dot products of bytes want this.

        %d = graph.requantize %r, %s, %z {centered} : tensor<1x8x4x4xi16>
        %y = graph.conv %d, %w {result_element = i32} : tensor<1x8x4x4xi32>
    ->
        %d = graph.requantize %r, %s, %z {centered} : tensor<1x8x4x4xi16>
        %a = graph.cast %d : tensor<1x8x4x4xui8>
        %b = graph.cast %w : tensor<8x8x1x1xi8>
        %y = graph.conv %a, %b {result_element = i32} : tensor<1x8x4x4xi32>
    """

    name = "narrow-integers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = gpu_target_of(op)
        if target is None or find_dot(target.capabilities, (i8, i8), i32) is None:
            return
        unsigned = find_dot(target.capabilities, (_UI8, i8), i32) is not None
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                _Narrowing(function.body.block, weights_of(op), unsigned).run()


class Narrow(NamedTuple):
    """How values are stored: less a number, in 8 bits."""

    element: Attribute
    shift: int


class _Narrowing:
    """The conversion of one function.

    Attributes:
        unsigned: whether the target multiplies unsigned bytes by signed ones.
        made: what stands for a value in 8 bits.
    """

    def __init__(self, body: Block, store: WeightStore | None, unsigned: bool):
        self.body = body
        self.unsigned = unsigned
        self.ranges = IntegerRanges(store)
        self.made: dict[tuple[SSAValue, Narrow], SSAValue] = {}

    def run(self) -> None:
        """Convert what can be, in order."""
        for op in list(self.body.ops):
            if not isinstance(op, ContractionOp) or element_type(op.results[0]) != i32:
                continue
            if {element_type(value) for value in op.operands} != {i16}:
                continue
            reason = self.convert(op)
            remark("narrow-integers", op, reason or "on 8-bit integers", missed=reason is not None)

    def convert(self, op: ContractionOp) -> str | None:
        """Put a contraction of bytes in the place of one; why not, if there is none."""
        weights = self.ranges.of(op.weights)
        if weights is None or self.ranges.array(op.weights) is None:
            return "its weights are not known"
        if how_to_store(weights, unsigned=False) != Narrow(i8, 0):
            return f"its weights are between {weights[0]} and {weights[1]}"
        data = op.operands[0]
        limits = self.ranges.of(data)
        narrow = None if limits is None else how_to_store(limits, self.unsigned)
        if narrow is None:
            return "its data is not known to fit 8 bits"
        linear = op.linear_weight()
        if narrow.shift and linear is None:
            return "its weights have no channels of their own"
        x = self.narrowed(data, narrow, op)
        w = self.insert(CastOp(op.weights, i8), op)
        if narrow.shift and isinstance(op, ConvOp) and op.window.is_padded:
            sums = self.insert(self.padded(op, x, w, narrow.shift), op)
        else:
            sums = self.insert(op.on_operands([x, w]), op)
        if narrow.shift and linear is not None:
            # The sums of what was taken from the data: one for each channel.
            wide = self.insert(CastOp(w, i32), op)
            axes = [axis for axis in range(len(shape_of(w))) if axis != linear.axis]
            total = self.insert(ReduceOp(wide, kind="sum", axes=axes), op)
            shift = self.insert(ConstantOp.literal(np.int32(narrow.shift)), op)
            form = [1] * len(shape_of(sums))
            form[linear.channel] = shape_of(sums)[linear.channel]
            lost = self.insert(MulOp(self.insert(ReshapeOp(total, form), op), shift), op)
            sums = self.insert(AddOp(sums, lost), op)
        sums.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(sums)
        op.detach()
        op.erase()
        return None

    def narrowed(self, value: SSAValue, narrow: Narrow, user: GraphOp) -> SSAValue:
        """A value in 8 bits, made once."""
        key = value, narrow
        if key not in self.made:
            less = value
            if narrow.shift:
                shift = self.insert(ConstantOp.literal(np.int16(narrow.shift)), user)
                less = self.insert(SubOp(value, shift), user)
            self.made[key] = self.insert(CastOp(less, narrow.element), user)
        return self.made[key]

    def padded(self, op: ConvOp, x: SSAValue, w: SSAValue, shift: int) -> ConvOp:
        """The convolution of data with pads of what stands for zero."""
        window = op.window
        fill = self.insert(ConstantOp.literal(np.int8(-shift)), op)
        low, high = [0, 0, *window.low], [0, 0, *window.high]
        return ConvOp(
            self.insert(PadOp(x, fill, low=low, high=high), op),
            w,
            strides=window.strides,
            dilations=window.dilations,
            groups=op.group_count,
            result_element=i32,
        )

    def insert(self, op: GraphOp, before: GraphOp) -> SSAValue:
        """Add an op in front of another; its result."""
        op.location = before.location
        self.body.insert_op_before(op, before)
        return op.results[0]


def how_to_store(limits: Limits, unsigned: bool) -> Narrow | None:
    """How integers are stored in 8 bits; None if these do not suffice.

    Args:
        unsigned: whether they may be unsigned.
    """
    low, high = limits
    if low >= -128 and high <= 127:
        return Narrow(i8, 0)
    if unsigned and low >= 0 and high <= 255:
        return Narrow(_UI8, 0)
    return Narrow(i8, low + 128) if high - low <= 255 else None
