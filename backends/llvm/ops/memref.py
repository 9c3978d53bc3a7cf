"""memref: allocation, views, scalar access, copies and constants in memory.

A view changes the byte offset and strides. Offsets, sizes and strides of views may be computed;
allocations are static.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    MemRefType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.backends.llvm.emit.emitter import EmittedBuffer, FunctionEmitter, Stride
from tcopt.backends.llvm.emit.linear import LinearAddress
from tcopt.backends.llvm.emit.literals import address_of, literal
from tcopt.backends.llvm.emit.names import global_symbol
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.stops import check_allocated
from tcopt.backends.llvm.emit.types import byte_size, is_bool, llvm_type, memory_type
from tcopt.backends.llvm.ops.scf import counted_loop
from tcopt.backends.strides import known_strides, static_strides
from tcopt.dialects.memref_ import PrefetchOp
from tcopt.support.errors import UnsupportedError
from tcopt.support.machines.alignment import ALIGNMENT


def memref_type(value: SSAValue) -> MemRefType[Attribute]:
    """Return the type of a memref value."""
    assert isinstance(value.type, MemRefType)
    return value.type


def memref_bytes(type: MemRefType[Attribute]) -> int:
    """Return the size of a contiguous memref in bytes."""
    return prod(type.get_shape()) * byte_size(type.element_type)


# Loads and stores; the vector rules use these too.


def load(e: FunctionEmitter, type: Attribute, pointer: str, alignment: int, note: str = "") -> str:
    """Load a scalar or vector; i1 is read as nonzero bytes, an index as 64 bits."""
    stored = memory_type(type)
    loaded = e.assign(
        f"load {stored}, {e.pointer_type(pointer)} {pointer}, align {alignment}{note}"
    )
    if stored != e.type(type) and not is_bool(type):
        return e.assign(f"trunc {stored} {loaded} to {e.type(type)}")
    if not is_bool(type):
        return loaded
    return e.assign(f"icmp ne {stored} {loaded}, {literal(stored, 0)}")


def store(
    e: FunctionEmitter, type: Attribute, value: str, pointer: str, alignment: int, note: str = ""
) -> None:
    """Store a scalar or vector; i1 is stored as bytes 0 or 1, an index as 64 bits."""
    stored = memory_type(type)
    if is_bool(type):
        value = e.assign(f"zext {llvm_type(type)} {value} to {stored}")
    elif stored != e.type(type):
        value = e.assign(f"sext {e.type(type)} {value} to {stored}")
    to = f"{e.pointer_type(pointer)} {pointer}"
    e.write(f"  store {stored} {value}, {to}, align {alignment}{note}")


def nontemporal(op: Operation) -> str:
    """Return the metadata of an access marked nontemporal, or an empty string."""
    attr = op.properties.get("nontemporal")
    return ", !nontemporal !2" if attr is not None and str(attr) == "true" else ""


@emits(memref.LoadOp)
def emit_load(e: FunctionEmitter, op: memref.LoadOp) -> None:
    source, *indices = op.operands
    pointer, alignment = e.address(source, indices)
    result = op.results[0]
    e.define(result, load(e, result.type, pointer, alignment, nontemporal(op)))


@emits(memref.StoreOp)
def emit_store(e: FunctionEmitter, op: memref.StoreOp) -> None:
    value, target, *indices = op.operands
    pointer, alignment = e.address(target, indices)
    store(e, value.type, e.value(value), pointer, alignment, nontemporal(op))


@emits(PrefetchOp)
def emit_prefetch(e: FunctionEmitter, op: PrefetchOp) -> None:
    pointer, _ = e.address(op.memref, op.indices)
    locality = op.localityHint.value.data
    e.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
    e.write(f"  call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 {locality}, i32 1)")


# Allocation


@emits(memref.AllocaOp)
def emit_alloca(e: FunctionEmitter, op: memref.AllocaOp) -> None:
    """Reserve stack memory in the function's entry block."""
    type = memref_type(op.memref)
    static_strides(type)
    root = e.alloca("i8", _alignment(op), memref_bytes(type))
    e.bind_memref(op.memref, root, _alignment(op), local=True)


@emits(memref.AllocOp)
def emit_alloc(e: FunctionEmitter, op: memref.AllocOp) -> None:
    """Allocate with malloc and align the result; the original pointer is stored before it."""
    type = memref_type(op.memref)
    static_strides(type)
    size = memref_bytes(type) + ALIGNMENT + 8
    e.declare("malloc", "ptr", ["i64"])
    e.declare("free", "void", ["ptr"])
    e.declare("llvm.ptrmask.p0.i64", "ptr", ["ptr", "i64"])
    raw = e.assign(f"call ptr @malloc(i64 {size})")
    check_allocated(e, raw, size)
    behind = e.assign(f"getelementptr i8, ptr {raw}, i64 {ALIGNMENT + 7}")
    root = e.assign(f"call ptr @llvm.ptrmask.p0.i64(ptr {behind}, i64 {-ALIGNMENT})")
    slot = e.assign(f"getelementptr i8, ptr {root}, i64 -8")
    e.write(f"  store ptr {raw}, ptr {slot}, align 8")
    e.bind_memref(op.memref, root, ALIGNMENT)
    e.allocated[id(op.memref)] = raw


@emits(memref.DeallocOp)
def emit_dealloc(e: FunctionEmitter, op: memref.DeallocOp) -> None:
    """Free the memory of a `memref.alloc`."""
    e.declare("free", "void", ["ptr"])
    slot = e.assign(f"getelementptr i8, ptr {e.base_pointer(op.memref)}, i64 -8")
    raw = e.assign(f"load ptr, ptr {slot}, align 8")
    e.write(f"  call void @free(ptr {raw})")
    if e.allocated.pop(id(op.memref), None) is None:
        # A view: the set of live allocations is unknown from here on.
        e.can_stop = False


def _alignment(op: memref.AllocaOp) -> int:
    return max(ALIGNMENT, op.alignment.value.data if op.alignment else 0)


@emits(memref.GetGlobalOp)
def emit_get_global(e: FunctionEmitter, op: memref.GetGlobalOp) -> None:
    e.bind_memref(op.memref, address_of(global_symbol(op.name_.string_value())), ALIGNMENT)


# Views


def _rebind(
    e: FunctionEmitter,
    source: SSAValue,
    result: SSAValue,
    extra: LinearAddress,
    strides: tuple[Stride, ...],
) -> None:
    """Bind a view that starts `extra` bytes after its source."""
    base, type = e.buffer(source), memref_type(result)
    offset = base.offset.plus(extra)
    e.define_buffer(
        result,
        EmittedBuffer(base.root, offset, strides, type.element_type, base.alignment, base.is_local),
    )


@emits(memref.ViewOp)
def emit_view(e: FunctionEmitter, op: memref.ViewOp) -> None:
    result = memref_type(op.result)
    extents = _mixed(e, result.get_shape(), op.sizes)
    strides: list[Stride] = list(known_strides(result))
    for axis in reversed(range(len(strides) - 1)):
        if strides[axis] is None:
            strides[axis] = e.steps(extents[axis + 1], strides[axis + 1])
    _rebind(e, op.source, op.result, e.index(op.byte_shift), tuple(strides))


@emits(memref.ReinterpretCastOp)
def emit_reinterpret_cast(e: FunctionEmitter, op: memref.ReinterpretCastOp) -> None:
    source, result = memref_type(op.source), memref_type(op.result)
    if not _is_identity(source):
        raise UnsupportedError("the source should have the identity layout", op=op)
    (offset,) = _mixed(e, op.static_offsets.get_values(), op.offsets)
    bytes = offset.scaled(byte_size(result.element_type))
    given = _mixed(e, op.static_strides.get_values(), op.strides)
    strides = zip(known_strides(result), given, strict=True)
    _rebind(e, op.source, op.result, bytes, tuple(s if s is not None else g for s, g in strides))


def _is_identity(type: MemRefType[Attribute]) -> bool:
    return isinstance(type.layout, type.layout.__class__) and not type.get_offset()


def _mixed(e: FunctionEmitter, static: tuple[int, ...], dynamic: object) -> list[LinearAddress]:
    """Return linear forms for a mixed static and dynamic list of indices."""
    operands = iter(dynamic)  # pyright: ignore
    return [
        e.index(next(operands)) if value == DYNAMIC_INDEX else LinearAddress.constant(value)
        for value in static
    ]


@emits(memref.SubviewOp)
def emit_subview(e: FunctionEmitter, op: memref.SubviewOp) -> None:
    """Emit a rectangular view; dimensions of size 1 may be dropped from the result.

    Sizes only determine which indices are legal.
    """
    result = memref_type(op.result)
    base = e.buffer(op.source)
    offsets = _mixed(e, op.static_offsets.get_values(), op.offsets)
    sizes, steps = op.static_sizes.get_values(), op.static_strides.get_values()
    if DYNAMIC_INDEX in steps:
        raise UnsupportedError("the strides of a subview should be static", op=op)
    size = byte_size(result.element_type)
    extra = LinearAddress.constant(0)
    for offset, stride in zip(offsets, base.strides, strict=True):
        extra = extra.plus(e.steps(offset, stride).scaled(size))
    strides = [_scaled(stride, step) for stride, step in zip(base.strides, steps, strict=True)]
    kept = _kept_dimensions(tuple(sizes), result.get_shape())
    if kept is None:
        raise UnsupportedError(f"{result} does not match the sizes {list(sizes)}", op=op)
    _rebind(e, op.source, op.result, extra, tuple(strides[d] for d in kept))


def _scaled(stride: Stride, step: int) -> Stride:
    if isinstance(stride, LinearAddress):
        return stride.scaled(step)
    return None if stride is None else stride * step


def _kept_dimensions(sizes: tuple[int, ...], shape: tuple[int, ...]) -> list[int] | None:
    """Return the dimensions of a subview that its result keeps; only size 1 may be dropped."""
    kept: list[int] = []
    for dimension, size in enumerate(sizes):
        remaining = len(shape) - len(kept)
        if (
            remaining
            and size == shape[len(kept)]
            and (size != 1 or len(sizes) - dimension <= remaining or 1 in shape[len(kept) :])
        ):
            kept.append(dimension)
        elif size != 1:
            return None
    return kept if len(kept) == len(shape) else None


@emits(memref.CollapseShapeOp, memref.ExpandShapeOp)
def emit_reshape(e: FunctionEmitter, op: memref.AlterShapeOperation) -> None:
    _rebind(
        e,
        op.operands[0],
        op.result,
        LinearAddress.constant(0),
        known_strides(memref_type(op.result)),
    )


@emits(memref.CastOp, memref.MemorySpaceCastOp, UnrealizedConversionCastOp)
def emit_cast(e: FunctionEmitter, op: Operation) -> None:
    """The same buffer with another type; an unrealized cast changes the signedness of elements."""
    if len(op.operands) != 1 or not all(
        isa(v.type, MemRefType) for v in (*op.operands, *op.results)
    ):
        raise UnsupportedError("only a cast of one memref to another has an LLVM form", op=op)
    (source,), (result,) = op.operands, op.results
    _rebind(e, source, result, LinearAddress.constant(0), e.buffer(source).strides)


@emits(memref.AssumeAlignmentOp)
def emit_assume_alignment(e: FunctionEmitter, op: memref.AssumeAlignmentOp) -> None:
    """Bind the result to the source, with the assumed alignment."""
    base = e.buffer(op.memref)
    root = e.pointer(base.root, base.offset)
    alignment = max(op.alignment.value.data, base.alignment)
    e.bind_memref(op.result, root, alignment, base.is_local)


@emits(memref.DimOp)
def emit_dim(e: FunctionEmitter, op: memref.DimOp) -> None:
    number = e.constant_index(op.index)
    if number is None:
        raise UnsupportedError("the dimension should be a constant", op=op)
    extent = memref_type(op.source).get_shape()[number]
    if extent == DYNAMIC_INDEX:
        raise UnsupportedError("the extent of the dimension should be static", op=op)
    e.define_index(op.result, LinearAddress.constant(extent))


@emits(memref.ExtractAlignedPointerAsIndexOp)
def emit_pointer_as_index(e: FunctionEmitter, op: memref.ExtractAlignedPointerAsIndexOp) -> None:
    assert isinstance(op.aligned_pointer.type, IndexType)
    e.define_result(op, f"ptrtoint ptr {e.base_pointer(op.source)} to i64")


# Copies


@emits(memref.CopyOp)
def emit_copy(e: FunctionEmitter, op: memref.CopyOp) -> None:
    """Copy a memref, with loops over the outer dimensions around copies of contiguous runs."""
    source, target = e.buffer(op.source), e.buffer(op.destination)
    shape = memref_type(op.source).get_shape()
    if shape != memref_type(op.destination).get_shape():
        raise UnsupportedError("source and destination differ in shape", op=op)
    if DYNAMIC_INDEX in shape:
        raise UnsupportedError("the extents of copied buffers should be static", op=op)
    both = list(zip(source.strides, target.strides, strict=True))
    run, outer = 1, len(shape)
    while outer and (shape[outer - 1] == 1 or both[outer - 1] == (run, run)):
        outer -= 1
        run *= shape[outer]
    size = byte_size(source.element)
    name = "llvm.memcpy.p0.p0.i64"
    e.declare(name, "void", ["ptr", "ptr", "i64", "i1"])

    def copy(dimension: int, from_: LinearAddress, to: LinearAddress) -> None:
        if dimension == outer:
            pointers = e.pointer(target.root, to), e.pointer(source.root, from_)
            e.write(
                f"  call void @{name}(ptr {pointers[0]}, ptr {pointers[1]}, i64 {run * size}, "
                "i1 false)"
            )
            return

        def body(variable: str, _: list[str]) -> list[str]:
            step = LinearAddress.symbol(variable)
            copy(
                dimension + 1,
                from_.plus(e.steps(step, source.strides[dimension]).scaled(size)),
                to.plus(e.steps(step, target.strides[dimension]).scaled(size)),
            )
            return []

        if shape[dimension]:
            counted_loop(e, "i64", ("0", str(shape[dimension]), "1"), [], body, runs=True)

    copy(0, source.offset, target.offset)
