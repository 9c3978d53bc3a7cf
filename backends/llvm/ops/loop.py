"""loop: slices of buffers that a time loop passes to its calls."""

from __future__ import annotations

from math import gcd, prod

from tcopt.backends.llvm.emit.emitter import EmittedBuffer, FunctionEmitter
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import byte_size
from tcopt.backends.llvm.ops.memref import memref_type
from tcopt.dialects.loop import SliceOp


@emits(SliceOp)
def emit_slice(e: FunctionEmitter, op: SliceOp) -> None:
    """A view, with the minimum alignment of all slices."""
    base, shape = e.buffer(op.source), memref_type(op.result).get_shape()
    size = prod(shape) * byte_size(base.element)
    offset = base.offset.plus(e.index(op.index).scaled(size))
    alignment = gcd(base.alignment, size)
    buffer = EmittedBuffer(
        base.root, offset, base.strides[1:], base.element, alignment, base.is_local
    )
    e.define_buffer(op.result, buffer)
