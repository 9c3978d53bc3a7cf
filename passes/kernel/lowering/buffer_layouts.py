"""Strides and extents of buffers with sizes, in a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tcopt.dialects.size import (
    Measure,
    SizeValues,
    extents_of,
    row_major,
    sized,
    view_of,
)
from tcopt.passes.kernel.accesses.lane_layouts import flat_step
from tcopt.passes.kernel.lowering.lowering_levels import LevelWriter
from tcopt.support.arithmetic.sizes import is_fixed

_UNLIMITED = 1 << 62


class BufferLayouts:
    """Writes the strides of a kernel's buffers.

    Args:
        sizes: values of the function's sizes.
    """

    def __init__(self, writer: LevelWriter, sizes: SizeValues):
        self.writer = writer
        self.sizes = sizes
        self._strides: dict[SSAValue, list[Measure]] = {}

    def view(self, memory: SSAValue, type: Attribute) -> SSAValue:
        """Return a buffer of the loop level as a view of its memory, with its strides if they
        depend on sizes."""
        buffer = sized(type)
        if buffer is None or is_fixed(row_major(extents_of(buffer))):
            return memory
        cast = view_of(memory, buffer, self.sizes)
        view = self.writer.write(cast).results[0]
        view.name_hint = memory.name_hint
        strides = row_major(extents_of(buffer))
        self._strides[view] = [self.sizes.measure(stride) for stride in strides]
        return view

    def step(self, buffer: SSAValue, steps: Sequence[int]) -> Measure:
        """Return the distance in elements between neighbouring lanes.

        Args:
            steps: steps of the lanes along each dimension.
        """
        strides = self._strides.get(buffer)
        if strides is None:
            return flat_step(buffer.type, tuple(steps))
        writer, total, constant = self.writer, None, 0
        for step, stride in zip(steps, strides, strict=True):
            if isinstance(stride, int):
                constant += step * stride
            elif step:
                part = stride
                if step != 1:
                    part = writer.binary(arith.MuliOp, stride, writer.constant(step))
                total = part if total is None else writer.binary(arith.AddiOp, total, part)
        if total is None:
            return constant
        if constant:
            total = writer.binary(arith.AddiOp, total, writer.constant(constant))
        return total

    def limits(self, type: Attribute) -> list[Measure]:
        """Return the extents of a buffer of the loop level."""
        return [self.sizes.measure(extent) for extent in extents_of(type)]

    def is_below(self, expr: AffineExpr, operands: Sequence[SSAValue], limit: Measure) -> bool:
        """Whether an index is certainly in `[0, limit)`."""
        known = self.writer.known
        if isinstance(limit, int):
            return known.decide(expr, operands, limit) is True
        left = AffineDimExpr(len(operands)) - 1 - expr
        return (
            known.decide(expr, operands, _UNLIMITED) is True
            and known.decide(left, [*operands, limit], _UNLIMITED) is True
        )
