"""vector: loads and stores, masked accesses, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm

from xdsl.dialects import vector
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.literals import Literal, literal
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import (
    DOUBLE,
    FLOAT,
    LlvmType,
    byte_size,
    element_of,
    is_bool,
    lanes,
    llvm_type,
    memory_type,
)
from tcopt.backends.llvm.ops.memref import load, nontemporal, store
from tcopt.backends.llvm.ops.vector import row_major, shuffle
from tcopt.dialects import vector_
from tcopt.support.errors import UnsupportedError

_MASKING = frozenset({"avx512vl", "sve"})
"""Features with fast masked stores. AVX2's masked store takes dozens of micro-ops on some CPUs."""
_TRUNCATING = "avx512f"
"""The feature with which LLVM miscompiles masked stores of truncated values."""


def _address(
    e: FunctionEmitter,
    op: Operation,
    memref: SSAValue,
    indices: Sequence[SSAValue],
    type: Attribute,
) -> tuple[str, int]:
    """Return the address of a vector, whose elements must be contiguous in memory."""
    assert isinstance(type, VectorType)
    shape = type.get_shape()
    strides = e.buffer(memref).strides
    inner = strides[len(strides) - len(shape) :]
    if inner != row_major(shape) and any(
        extent != 1 and stride != wanted
        for extent, stride, wanted in zip(shape, inner, row_major(shape), strict=True)
    ):
        raise UnsupportedError(f"elements of {type} are not adjacent in {memref.type}", op=op)
    return e.address(memref, indices)


@emits(vector.LoadOp)
def emit_load(e: FunctionEmitter, op: vector.LoadOp) -> None:
    memref, *indices = op.operands
    result = op.results[0]
    pointer, alignment = _address(e, op, memref, indices, result.type)
    bits = 8 * byte_size(element_of(result.type)) * lanes(result.type)
    if bits in (16, 32) and not is_bool(result.type):
        # No register is this short. As a word, the vector can be broadcast from memory.
        word = load(e, IntegerType(bits), pointer, alignment, nontemporal(op))
        e.define_result(op, f"bitcast i{bits} {word} to {llvm_type(result.type)}")
        return
    e.define(result, load(e, result.type, pointer, alignment, nontemporal(op)))


@emits(vector.StoreOp)
def emit_store(e: FunctionEmitter, op: vector.StoreOp) -> None:
    value, memref, *indices = op.operands
    pointer, alignment = _address(e, op, memref, indices, value.type)
    store(e, value.type, e.value(value), pointer, alignment, nontemporal(op))


def _to_memory(e: FunctionEmitter, type: Attribute, value: str) -> str:
    """Convert a vector to its form in memory: i1 lanes become bytes."""
    if not is_bool(type):
        return value
    return e.assign(f"zext {llvm_type(type)} {value} to {memory_type(type)}")


def _from_memory(e: FunctionEmitter, type: Attribute, value: str) -> str:
    if not is_bool(type):
        return value
    return e.assign(f"icmp ne {memory_type(type)} {value}, {literal(memory_type(type), 0)}")


@emits(vector.MaskedLoadOp)
def emit_masked_load(e: FunctionEmitter, op: vector.MaskedLoadOp) -> None:
    memref, *indices, mask, pass_thru = op.operands
    result = op.results[0]
    pointer, alignment = _address(e, op, memref, indices, result.type)
    flags = e.value(mask)
    if _is_all_on(flags):
        e.define(result, load(e, result.type, pointer, alignment))
        return
    stored, mask_type = memory_type(result.type), llvm_type(mask.type)
    kept = _to_memory(e, result.type, e.value(pass_thru))
    place = e.pointer_type(pointer)
    loaded = e.call_intrinsic(
        f"llvm.masked.load.{stored.mangled}.{place.mangled}",
        stored,
        [(place, f"align {alignment} {pointer}"), (mask_type, flags), (stored, kept)],
    )
    e.define(result, _from_memory(e, result.type, loaded))


def _is_all_on(flags: str) -> bool:
    return isinstance(flags, Literal) and bool(flags.number)


def _run_of(flags: str) -> tuple[int, int] | None:
    """Return the first lane and the number of active lanes if a mask is a literal with one
    contiguous run, else None."""
    if not isinstance(flags, Literal):
        return None
    on = [lane for lane, flag in enumerate(flags.lanes) if flag]
    first = on[0] if on else 0
    return (first, len(on)) if on == list(range(first, first + len(on))) else None


def _store_parts(
    e: FunctionEmitter, value: SSAValue, run: tuple[int, int], pointer: str, alignment: int
) -> None:
    """Store a contiguous run of lanes as vectors whose lengths are powers of two."""
    type, element = llvm_type(value.type), llvm_type(element_of(value.type))
    size, place, text = byte_size(element_of(value.type)), e.pointer_type(pointer), e.value(value)
    start, end = run[0], sum(run)
    while start < end:
        width = 1 << ((end - start).bit_length() - 1)
        if width == 1:
            part, kind = e.assign(f"extractelement {type} {text}, i32 {start}"), element
        else:
            lanes_ = ", ".join(f"i32 {lane}" for lane in range(start, start + width))
            kind = f"<{width} x {element}>"
            chosen = f"<{width} x i32> <{lanes_}>"
            part = e.assign(f"shufflevector {type} {text}, {type} poison, {chosen}")
        to = pointer
        if start:
            to = e.assign(f"getelementptr i8, {place} {pointer}, i64 {start * size}")
        known = gcd(alignment, start * size)
        e.write(f"  store {kind} {part}, {place} {to}, align {known}")
        start += width


def _fenced(e: FunctionEmitter, type: Attribute, value: str) -> str:
    """Hide a vector, in its memory form, from LLVM's instruction selection.

    On x86, LLVM (22) turns a masked store of a truncation into a truncating store, and such a
    store with one lane known to be active, possibly only after vectors are split, into a store of
    a whole wide lane. The fence emits no instruction; it exists for floats only.
    """
    text, element = memory_type(type), memory_type(element_of(type))
    count, bits = lanes(type), 8 * byte_size(element_of(type))
    padded = lcm(count * bits, 32) // bits if count * bits % 32 else count
    whole = f"<{padded} x {element}>"
    if padded != count:
        value = shuffle(e, text, value, "poison", [*range(count), *[-1] * (padded - count)])
    width, float_ = (32, FLOAT) if padded * bits % 64 else (64, DOUBLE)
    like = LlvmType.vector(float_, padded * bits // width)
    floats = e.assign(f"bitcast {whole} {value} to {like}")
    name = f"llvm.arithmetic.fence.{like.mangled}"
    fenced = e.call_intrinsic(name, like, [(like, floats)])
    result = e.assign(f"bitcast {like} {fenced} to {whole}")
    return result if padded == count else shuffle(e, whole, result, "poison", range(count))


@emits(vector.MaskedStoreOp)
def emit_masked_store(e: FunctionEmitter, op: vector.MaskedStoreOp) -> None:
    memref, *indices, mask, value = op.operands
    pointer, alignment = _address(e, op, memref, indices, value.type)
    flags = e.value(mask)
    if _is_all_on(flags):
        store(e, value.type, e.value(value), pointer, alignment)
        return
    run = None if is_bool(value.type) else _run_of(flags)
    # A single plain store is never slower than a masked one.
    plain = run is not None and run[1].bit_count() <= 1
    if run is not None and (plain or e.module.capabilities.isdisjoint(_MASKING)):
        _store_parts(e, value, run, pointer, alignment)
        return
    stored, mask_type = memory_type(value.type), llvm_type(mask.type)
    place = e.pointer_type(pointer)
    name = f"llvm.masked.store.{stored.mangled}.{place.mangled}"
    e.declare(name, "void", [stored, place, mask_type])
    text = _to_memory(e, value.type, e.value(value))
    if _TRUNCATING in e.module.capabilities:
        text = _fenced(e, value.type, text)
    e.write(
        f"  call void @{name}({stored} {text}, {place} align {alignment} {pointer}, "
        f"{mask_type} {flags})"
    )


def _pointers(
    e: FunctionEmitter, op: vector_.GatherOp | vector_.ScatterOp, type: Attribute
) -> tuple[str, int]:
    """Return a vector of element addresses and their alignment."""
    if e.buffer(op.base).strides[-1:] not in ((1,), ()):
        raise UnsupportedError(f"elements of {op.base.type} are not adjacent", op=op)
    base, _ = e.address(op.base, op.indices)
    element = memory_type(element_of(type))
    offsets = llvm_type(op.index_vec.type)
    pointers = e.assign(f"getelementptr {element}, ptr {base}, {offsets} {e.value(op.index_vec)}")
    buffer = e.buffer(op.base)
    return pointers, min(byte_size(buffer.element), buffer.alignment)


@emits(vector_.GatherOp)
def emit_gather(e: FunctionEmitter, op: vector_.GatherOp) -> None:
    type = op.result.type
    count, stored = lanes(type), memory_type(type)
    pointers, alignment = _pointers(e, op, type)
    kept = _to_memory(e, type, e.value(op.pass_thru))
    loaded = e.call_intrinsic(
        f"llvm.masked.gather.{stored.mangled}.v{count}p0",
        stored,
        [
            (f"<{count} x ptr>", f"align {alignment} {pointers}"),
            (f"<{count} x i1>", e.value(op.mask)),
            (stored, kept),
        ],
    )
    e.define(op.result, _from_memory(e, type, loaded))


@emits(vector_.ScatterOp)
def emit_scatter(e: FunctionEmitter, op: vector_.ScatterOp) -> None:
    type = op.value_to_store.type
    count, stored = lanes(type), memory_type(type)
    pointers, alignment = _pointers(e, op, type)
    name = f"llvm.masked.scatter.{stored.mangled}.v{count}p0"
    e.declare(name, "void", [stored, f"<{count} x ptr>", f"<{count} x i1>"])
    value = _to_memory(e, type, e.value(op.value_to_store))
    e.write(
        f"  call void @{name}({stored} {value}, <{count} x ptr> align {alignment} {pointers}, "
        f"<{count} x i1> {e.value(op.mask)})"
    )
