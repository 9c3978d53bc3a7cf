"""memref: accesses to elements, and allocation of private and block-shared buffers."""

from __future__ import annotations

import math

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType

from tcopt.backends.opencl.emit.packed import load_packed, store_packed
from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.writer import OpenClWriter
from tcopt.passes.kernel.lowering.thread_axes import SHARED_SPACE


@writes(memref.LoadOp)
def write_load(k: OpenClWriter, op: memref.LoadOp) -> None:
    k.assign(op.results[0], loaded(k, op), default=op.operands[0].name_hint or "v")


def loaded(k: OpenClWriter, op: memref.LoadOp) -> str:
    """Return the expression of a load."""
    source, *indices = op.operands
    if k.is_packed(source):
        return load_packed(k, source, k.offset(source, indices))
    return k.element(source, indices)


@writes(memref.StoreOp)
def write_store(k: OpenClWriter, op: memref.StoreOp) -> None:
    value, target, *indices = op.operands
    if k.is_packed(target):
        offset = k.offset(target, indices)
        k.line(store_packed(k, target, offset, k.text(value)))
    else:
        k.line(f"{k.element(target, indices)} = {k.text(value)};")


@writes(memref.AllocaOp)
def write_alloca(k: OpenClWriter, op: memref.AllocaOp) -> None:
    type = op.memref.type
    assert isinstance(type, MemRefType)
    name = k.name(op.memref, "t")
    k.define(op.memref, name)
    scope = "__local " if is_shared(type) else ""
    element = k.value_type(type.element_type)
    element = "uchar" if element == "bool" else element
    k.line(f"{scope}{element} {name}[{math.prod(type.get_shape())}];")


@writes(memref.ReinterpretCastOp)
def write_reinterpret_cast(k: OpenClWriter, op: memref.ReinterpretCastOp) -> None:
    """Use the source's pointer: the offset is 0, and accesses compute the strides."""
    k.define(op.result, k.text(op.source))


def is_shared(type: MemRefType) -> bool:
    """Whether a buffer of this type is shared by the threads of a block."""
    return type.memory_space == SHARED_SPACE
