"""Masks and offsets of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tcopt.dialects.size import Measure
from tcopt.passes.kernel.lowering.lowering_levels import NO_OVERFLOW, LevelWriter

_SMALL = 1 << 30


@dataclass(frozen=True)
class Condition:
    """Condition of a mask: lane `l` is on if `0 <= expr + l * step < extent`.

    Attributes:
        most: upper bound of the extent.
    """

    expr: AffineExpr
    step: int
    extent: Measure
    most: int


class LaneMasks:
    """Writes masks and offsets of lanes, and vectors of equal constants."""

    def __init__(self, writer: LevelWriter):
        self.writer = writer

    def of(
        self, conditions: Sequence[Condition], operands: Sequence[SSAValue], lanes: int
    ) -> SSAValue:
        """Return a vector of i1 for the conjunction of conditions."""
        masks = [self._one_mask(condition, operands, lanes) for condition in conditions]
        return self.writer.all_of(masks) if masks else self.all_on(lanes)

    def splat(self, value: IntegerAttr | FloatAttr | None, type: VectorType[Any]) -> SSAValue:
        """Return a vector of equal constants; zeros if no value is given."""
        number: Any = 0 if value is None else value.value.data
        attr = DenseIntOrFPElementsAttr.from_list(type, [number])
        return self.writer.attribute(attr, type)

    def _one_mask(self, condition: Condition, operands: Sequence[SSAValue], lanes: int) -> SSAValue:
        writer, type_ = self.writer, VectorType(i1, [lanes])
        step, extent = condition.step, condition.extent
        if step == 0:
            inside = writer.is_inside(condition.expr, operands, extent)
            return writer.pure(vector.BroadcastOp, (inside,), type_)
        low, high = writer.known.bounds(condition.expr, operands)
        if low == high and isinstance(extent, int):
            return self.constant([0 <= low + lane * step < extent for lane in range(lanes)])
        if step == 1 and low >= 0:
            count = self._difference(extent, condition.expr, operands)
            return writer.pure(vector.CreateMaskOp, (count,), type_)
        if step == -1 and isinstance(extent, int) and high < extent and writer.sizes & {*operands}:
            count = writer.index(condition.expr + 1, operands)
            return writer.pure(vector.CreateMaskOp, (count,), type_)
        # Lane numbers that fit 32 bits halve the number of vectors to compare.
        element = i32 if low > -_SMALL and max(high, condition.most) < _SMALL else i64
        first = writer.pure(arith.IndexCastOp, (writer.index(condition.expr, operands),), element)
        vector_type = VectorType(element, [lanes])
        spread = writer.pure(vector.BroadcastOp, (first,), vector_type)
        numbers = writer.pure(
            arith.AddiOp, (spread, self.offsets(lanes, step, element)), vector_type, NO_OVERFLOW
        )
        if isinstance(extent, int):
            limit = self.splat(IntegerAttr(extent, element), vector_type)
        else:
            cast = writer.pure(arith.IndexCastOp, (extent,), element)
            limit = writer.pure(vector.BroadcastOp, (cast,), vector_type)
        return writer.compare(numbers, limit, "ult")

    def _difference(
        self, extent: Measure, expr: AffineExpr, operands: Sequence[SSAValue]
    ) -> SSAValue:
        """Return the value of an extent minus an index."""
        if isinstance(extent, int):
            return self.writer.index(AffineConstantExpr(extent) - expr, operands)
        return self.writer.index(AffineDimExpr(len(operands)) - expr, [*operands, extent])

    def offsets(self, lanes: int, step: Measure, element: IntegerType = i32) -> SSAValue:
        type_ = VectorType(element, [lanes])
        if not isinstance(step, int):
            cast = self.writer.pure(arith.IndexCastOp, (step,), element)
            spread = self.writer.pure(vector.BroadcastOp, (cast,), type_)
            numbers = self.offsets(lanes, 1, element)
            return self.writer.pure(arith.MuliOp, (spread, numbers), type_, NO_OVERFLOW)
        values = [lane * step for lane in range(lanes)]
        return self.writer.attribute(DenseIntOrFPElementsAttr.from_list(type_, values), type_)

    def all_on(self, lanes: int) -> SSAValue:
        return self.constant([True] * lanes)

    def constant(self, bits: Sequence[bool]) -> SSAValue:
        type_ = VectorType(i1, [len(bits)])
        attr = DenseIntOrFPElementsAttr.from_list(type_, [int(bit) for bit in bits])
        return self.writer.attribute(attr, type_)
