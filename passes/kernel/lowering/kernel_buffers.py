"""Memory, strides and extents of a kernel's buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tcopt.dialects import loop
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.dialects.size import (
    Measure,
    SizeValues,
    extents_of,
    row_major,
    sized,
    static_type,
    view_of,
)
from tcopt.passes.kernel.accesses.lane_layouts import flat_step
from tcopt.passes.kernel.lowering.lowering_levels import LevelWriter
from tcopt.passes.kernel.lowering.thread_axes import LaunchGrid, with_space
from tcopt.passes.loop.bufferize.hoist_workspace import STACK_BYTES
from tcopt.support.arithmetic.sizes import Extent, is_fixed
from tcopt.support.machines.alignment import ALIGNMENT

_UNLIMITED = 1 << 62


class KernelBuffers:
    """Buffers of a kernel.

    Args:
        sizes: values of the function's sizes.
        grid: the launch grid of the function, if it is for a GPU.

    Attributes:
        heap: the memory of each buffer that is on the heap.
    """

    def __init__(self, writer: LevelWriter, sizes: SizeValues, grid: LaunchGrid | None = None):
        self.writer = writer
        self.sizes = sizes
        self.grid = grid
        self.heap: dict[SSAValue, SSAValue] = {}
        self._strides: dict[SSAValue, list[Measure]] = {}

    def allocate(self, op: loop.AllocOp) -> SSAValue:
        """Return the buffer of an allocation, on the stack or on the heap."""
        if self.grid is not None:
            self.grid.check_scope(op)
        type_ = static_type(self._buffer_type(op))
        alignment = IntegerAttr(ALIGNMENT, i64)
        on_stack = self._is_on_stack(op)
        if not on_stack:
            new: Operation = memref.AllocOp([], [], type_, alignment)
        else:
            new = memref.AllocaOp(
                operands=[[], []], result_types=[type_], properties={"alignment": alignment}
            )
        memory = self.writer.write(new).results[0]
        memory.name_hint = op.result.name_hint
        if not on_stack:
            self.heap[op.result] = memory
        return self.view(memory, op.result.type)

    def _buffer_type(self, op: loop.AllocOp) -> MemRefType:
        if self.grid is not None:
            return self.grid.buffer_type(op)
        # Without thread blocks, shared memory is ordinary memory.
        scope = op.scope.data
        return op.result.type if scope.is_shared else with_space(op.result.type, scope)

    def _is_on_stack(self, op: loop.AllocOp) -> bool:
        """Whether a buffer is small enough for the stack; GPU threads and special memories have no
        heap.
        """
        if self.grid is not None or op.scope.data.space is not None:
            return True
        return memref_bytes(op.result.type) <= STACK_BYTES

    def view(self, memory: SSAValue, type: Attribute) -> SSAValue:
        """Return a buffer of the loop level as a view of its memory, with its strides if they
        depend on sizes."""
        buffer = sized(type)
        if buffer is None or is_fixed(row_major(extents_of(buffer))):
            return memory
        cast = view_of(memory, buffer, self.sizes, is_strided=True)
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

    def is_below(self, expr: AffineExpr, operands: Sequence[SSAValue], extent: Extent) -> bool:
        """Whether an index is known to be in `[0, extent)`."""
        known, limit = self.writer.known, self.sizes.measure(extent)
        if isinstance(limit, int):
            return known.decide(expr, operands, limit) is True
        left = AffineDimExpr(len(operands)) - 1 - expr
        is_positive = known.decide(expr, operands, _UNLIMITED) is True
        return is_positive and known.decide(left, [*operands, limit], _UNLIMITED) is True
