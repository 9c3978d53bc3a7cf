"""loop: slices of buffers that a time loop passes to its calls."""

from __future__ import annotations

from math import gcd

from tcopt.backends.llvm.emit.emitter import EmittedBuffer, FunctionEmitter
from tcopt.backends.llvm.emit.linear import LinearAddress
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import byte_size
from tcopt.dialects.loop import SliceOp


@emits(SliceOp)
def emit_slice(e: FunctionEmitter, op: SliceOp) -> None:
    """A view, with the minimum alignment of all slices."""
    base = e.buffer(op.source)
    size = byte_size(base.element)
    offset = base.offset.plus(e.steps(e.index(op.index), base.strides[0]).scaled(size))
    step = e.steps(LinearAddress.constant(1), base.strides[0]).scaled(size)
    alignment = gcd(base.alignment, step.divisor)
    buffer = EmittedBuffer(
        base.root, offset, base.strides[1:], base.element, alignment, base.is_local
    )
    e.define_buffer(op.result, buffer)
