"""Replacement of operators on dequantised values by operators on integers.

A plan assigns integer ops to operators, and tracks the limits of their values.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i16, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, element_type, is_float, numpy_dtype
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, DivOp, SubOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.elementwise.quantize import (
    DequantizeOp,
    QuantizerOp,
    RequantizeOp,
    centred_type,
    is_quantized,
)
from tcopt.passes.graph.folding.constants import Constants
from tcopt.passes.graph.precision.integer_forms import on_integers
from tcopt.passes.graph.precision.scaled import ScaledIntegers
from tcopt.support.accuracy import ACCURACIES, DEFAULT, FAST
from tcopt.support.arithmetic.intervals import Range, difference, is_within, join
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import erase_unused, function_bodies, insert, take_choices
from tcopt.support.remarks import remark

_SCALES = 65536
"""Maximum number of elements of scales and zero points that are evaluated."""

_CHANNELS = 4096
"""Maximum number of per-channel scales for which every integer is tested."""


@dataclass(frozen=True)
class FakeQuantizationToIntegerPass(ModulePass):
    """Replace operators on dequantised values by operators on the 8-bit integers.

    A dequantised value is represented by centred integers (16 bits, with the zero point subtracted)
    and their scale. Operators that have a form on these (`on_integers`) are replaced by it:
    convolutions and matrix products accumulate in 32 bits, a bias of the right scale is added
    there, and ops that only move or compare elements work on the integers. The quantisation of the
    result is then a multiplication by the quotient of two scales; a clamp of real values outside of
    the integers' range is dropped before it. Other operators read real values converted from the
    same centred integers, so that only these are stored.

        %x = graph.dequantize %qx, %sx, %zx : tensor<1x8x4x4xf32>
        %w = graph.dequantize %qw, %sw, %zw : tensor<8x8x1x1xf32>
        %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %r = graph.relu %c : tensor<1x8x4x4xf32>
        %q = graph.quantize %r, %sy, %zy : tensor<1x8x4x4xui8>
    ->
        %a = graph.cast %qx : tensor<1x8x4x4xi16>
        %b = graph.sub %a, %zx16 : tensor<1x8x4x4xi16>
        ...
        %c = graph.conv %b, %v {result_element = i32} : tensor<1x8x4x4xi32>
        %r = graph.relu %c : tensor<1x8x4x4xi32>
        %d = graph.requantize %r, %s, %zy {centered} : tensor<1x8x4x4xi16>
        %e = graph.add %d, %zy16 : tensor<1x8x4x4xi16>
        %q = graph.cast %e : tensor<1x8x4x4xui8>

    Operators on integers in the model itself, which subtract zero points explicitly, use the same
    centred integers. 16-bit values are not changed: sums of their products do not fit 32 bits.

    Sums are requantised by one multiplication with the quotient of both scales. Dequantised values
    that are quantised again are divided, as their products are often halfway between two integers,
    unless the multiplication rounds all of them equally or `accuracy` is `fast`.

    Options:
        accuracy: `fast` requantises everything by multiplication.
    """

    name = "fake-quantization-to-integer"
    moves_values: ClassVar[bool] = True

    accuracy: str = DEFAULT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.accuracy not in ACCURACIES:
            known = ", ".join(ACCURACIES)
            raise PassFailedError(f"{self.name}: accuracy = '{self.accuracy}' is none of {known}")
        for body in function_bodies(op):
            plan = plan_integers(body, Constants(op), self.accuracy)
            if plan.ops:
                use_integers(body, plan)
                erase_unused(body, GraphOp)


@dataclass
class IntegerPlan:
    """Replacements for the ops of a block.

    Attributes:
        ops: new detached ops to insert before each op.
        results: values that replace the results of ops.
    """

    ops: dict[Operation, list[Operation]] = field(default_factory=dict[Operation, list[Operation]])
    results: dict[Operation, SSAValue] = field(default_factory=dict[Operation, SSAValue])


def plan_integers(body: Block, constants: Constants, accuracy: str = DEFAULT) -> IntegerPlan:
    """Choose the ops to compute on integers, by the rules of `fake-quantization-to-integer`."""
    return _Conversion(body, constants, accuracy).run()


def use_integers(body: Block, plan: IntegerPlan) -> None:
    """Insert the planned ops, and replace results by theirs; replaced ops become unused."""
    for op in tuple(body.ops):
        for each in plan.ops.get(op, ()):
            if each.name == op.name:
                take_choices(each, op)
            insert(each, op)
        if (result := plan.results.get(op)) is not None:
            op.results[0].replace_all_uses_with(result)


class _Conversion:
    """Conversion of one function, in program order.

    Attributes:
        plan: replacements found so far.
        scaled: real values with an integer representation.
        centred: zero point and centred integers of 8-bit values.
        limits: minimum and maximum of centred integers.
        sums: integers that are results of contractions.
    """

    def __init__(self, body: Block, constants: Constants, accuracy: str):
        self.body = body
        self.constants = constants
        self.accuracy = accuracy
        self.sums: set[SSAValue] = set()
        self.plan = IntegerPlan()
        self.scaled: dict[SSAValue, ScaledIntegers] = {}
        self.centred: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        self.limits: dict[SSAValue, Range] = {}
        self.arrays: dict[SSAValue, Array | None] = {}

    def run(self) -> IntegerPlan:
        """Plan all possible conversions."""
        for op in self.body.ops:
            if isinstance(op, DequantizeOp):
                self.dequantize(op)
            elif isinstance(op, QuantizerOp):
                self.quantize(op)
            elif isinstance(op, SubOp):
                self.subtract(op)
            elif isinstance(op, GraphOp):
                self.on_integers(op)
        return self.plan

    # Operators

    def dequantize(self, op: DequantizeOp) -> None:
        """Convert a dequantisation of 8-bit integers, or of a 32-bit bias."""
        element = element_type(op.x)
        if is_quantized(element) and centred_type(element) == i16:
            integers = self.minus_zero(op.x, op.zero, op)
        elif element == i32 and self.is_zero(op.zero):
            integers = op.x
        else:
            return
        self.replace_real(op, ScaledIntegers(integers, op.scale, self.array(op.scale)))

    def quantize(self, op: QuantizerOp) -> None:
        """Quantise to centred integers, and add the zero point to these."""
        element = element_type(op.zero)
        if op.is_centered or centred_type(element) != i16:
            return
        integers = self.quantized(op)
        zero = self.array(op.zero)
        if zero is not None:
            self.limits[integers] = _without(zero)
        shifted = self.insert(AddOp(integers, self.insert(CastOp(op.zero, i16), op)), op)
        self.replace(op, CastOp(shifted, element))
        self.centred[op.results[0]] = op.zero, integers

    def quantized(self, op: QuantizerOp) -> SSAValue:
        """Return the centred result of a quantisation."""
        x = self.unlimited(op)
        source = self.scaled.get(x)
        if source is None or isinstance(op, RequantizeOp):
            return self.insert(type(op)(x, op.scale, op.zero, centered=True), op)
        scale, zero = self.array(op.scale), self.array(op.zero)
        target = ScaledIntegers(source.integers, op.scale, scale)
        if zero is not None and source.is_uniform and source.scales_like(target):
            limits = self.limits.get(source.integers)
            if limits is not None and is_within(limits, _without(zero)) and zero.size == 1:
                return source.integers
        if not self.rounds_alike(source, op):
            return self.insert(type(op)(x, op.scale, op.zero, centered=True), op)
        factor = self.insert(DivOp(source.scale, op.scale), op)
        return self.insert(RequantizeOp(source.integers, factor, op.zero, centered=True), op)

    def rounds_alike(self, source: ScaledIntegers, op: QuantizerOp) -> bool:
        """Whether one multiplication rounds like a dequantisation followed by a quantisation.

        Sums are rounded as floats too, so for them neither order is more exact.
        """
        if source.integers in self.sums or self.accuracy == FAST:
            return True
        limits = self.limits.get(source.integers)
        scale, new, zero = source.known, self.array(op.scale), self.array(op.zero)
        if limits is None or scale is None or new is None or zero is None or zero.size != 1:
            return False
        integers = np.arange(limits[0], limits[1] + 1, dtype=np.float32)[:, None]
        scale, new = scale.reshape(-1), new.reshape(-1)
        if len({scale.size, new.size} - {1}) > 1 or max(scale.size, new.size) > _CHANNELS:
            return False
        point = zero.reshape(-1)
        product = op.compute(integers * (scale / new), np.ones((), np.float32), point)
        return bool((product == op.compute(integers * scale, new, point)).all())

    def unlimited(self, op: QuantizerOp) -> SSAValue:
        """Return the quantised operand without clamps that are wider than the integers' range."""
        x, scale, zero = op.x, self.array(op.scale), self.array(op.zero)
        while scale is not None and zero is not None and isinstance(x.owner, GraphOp):
            clamp = x.owner.clamped()
            if clamp is None or not is_float(element_type(x)):
                break
            numbers = [clamp.low, clamp.high, -np.inf, np.inf]
            ends = np.array(numbers).astype(numpy_dtype(element_type(x)))
            low, high, *limits = (op.compute(end, scale, zero) for end in ends)
            if (low != limits[0]).any() or (high != limits[1]).any():
                break
            x = clamp.x
        return x

    def subtract(self, op: SubOp) -> None:
        """Replace the subtraction of a zero point by the centred integers."""
        cast = op.lhs.owner
        if not isinstance(cast, CastOp) or cast.x not in self.centred:
            return
        zero, integers = self.centred[cast.x]
        if op.type == integers.type and self.same(op.rhs, zero):
            self.plan.results[op] = integers

    def on_integers(self, op: GraphOp) -> None:
        """Convert an operator all of whose operands have integer representations."""
        if not op.operands or len(op.results) != 1:
            return
        operands = [self.scaled.get(value) for value in op.operands]
        known = [value for value in operands if value is not None]
        made = on_integers(op, known) if len(known) == len(operands) else None
        if made is None:
            return
        limits = [self.limits.get(value.integers) for value in known]
        for new in (*made.integers, *made.scale):
            self.insert(new, op)
        integers = made.integers[-1].results[0]
        if element_type(integers) == i32 and any(
            value.integers in self.sums or element_type(value.integers) != i32 for value in known
        ):
            self.sums.add(integers)
        if element_type(integers) == i16 and None not in limits:
            self.limits[integers] = join(each for each in limits if each is not None)
        scale = made.scale[-1].results[0] if made.scale else known[0].scale
        remark(FakeQuantizationToIntegerPass.name, op, f"on {element_type(integers)}")
        self.replace_real(op, ScaledIntegers(integers, scale, self.array(scale)))

    def replace_real(self, op: GraphOp, made: ScaledIntegers) -> None:
        """Plan a dequantisation of the integers, for users that need real values."""
        zero = ConstantOp.literal(np.zeros((), numpy_dtype(element_type(made.integers))))
        new = DequantizeOp(made.integers, made.scale, self.insert(zero, op))
        self.replace(op, new)
        self.scaled[op.results[0]] = made

    # Zero points

    def minus_zero(self, x: SSAValue, zero: SSAValue, before: Operation) -> SSAValue:
        """Return the centred integers of an 8-bit value, created once."""
        if x not in self.centred or not self.same(zero, self.centred[x][0]):
            wide = [self.insert(CastOp(value, i16), before) for value in (x, zero)]
            integers = self.insert(SubOp(*wide), before)
            known = self.array(zero)
            if known is not None:
                self.limits[integers] = _without(known)
            self.centred[x] = zero, integers
        return self.centred[x][1]

    def same(self, left: SSAValue, right: SSAValue) -> bool:
        """Whether two zero points are equal, possibly in different types."""
        arrays = self.array(left), self.array(right)
        if arrays[0] is not None and arrays[1] is not None:
            return bool(np.all(arrays[0].astype(np.int32) == arrays[1].astype(np.int32)))
        return left is right or (isinstance(left.owner, CastOp) and left.owner.x is right)

    def is_zero(self, value: SSAValue) -> bool:
        """Whether all elements are known to be 0."""
        array = self.array(value)
        return array is not None and not array.any()

    # Values

    def array(self, value: SSAValue) -> Array | None:
        """Return the value of a small compile-time constant, or None."""
        if value not in self.arrays:
            self.arrays[value] = self.evaluated(value)
        return self.arrays[value]

    def evaluated(self, value: SSAValue) -> Array | None:
        op = value.owner
        if not isinstance(op, GraphOp) or op.has_sizes or np.prod(op.shape) > _SCALES:
            return None
        if isinstance(op, ConstantOp):
            return self.constants.value(value)
        operands = [self.array(operand) for operand in op.operands]
        known = [array for array in operands if array is not None]
        return op.evaluate(*known)[0] if known and len(known) == len(operands) else None

    def insert(self, new: Operation, before: Operation) -> SSAValue:
        """Plan an op before another one, and return its result."""
        self.plan.ops.setdefault(before, []).append(new)
        return new.results[0]

    def replace(self, op: GraphOp, new: GraphOp) -> None:
        """Plan an op that replaces another one."""
        result = self.plan.results[op] = self.insert(new, op)
        result.name_hint = op.results[0].name_hint


def _without(zero: Array) -> Range:
    """Return the minimum and maximum difference of an integer and zero points of the same type."""
    limits = np.iinfo(zero.dtype)
    return difference((int(limits.min), int(limits.max)), (int(zero.min()), int(zero.max())))
