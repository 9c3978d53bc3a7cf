"""vector: data movement between lanes, and reductions. Vectors of any rank are flat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from xdsl.dialects import vector
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, VectorType
from xdsl.ir import Operation, SSAValue

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.linear import LinearAddress
from tcopt.backends.llvm.emit.literals import Literal, literal, poison
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import (
    I1,
    I32,
    LlvmType,
    byte_size,
    element_of,
    integer,
    is_bool,
    lanes,
    llvm_type,
)
from tcopt.backends.llvm.ops.arith import fast_flags, float_min_max
from tcopt.backends.llvm.ops.casts import computing_type, computing_value, from_computing
from tcopt.dialects import vector_
from tcopt.support.errors import UnsupportedError


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a vector value."""
    assert isinstance(value.type, VectorType)
    return value.type.get_shape()


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major layout."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def shuffle(e: FunctionEmitter, type: str, left: str, right: str, mask: Sequence[int]) -> str:
    """Emit `shufflevector` with a mask over the lanes of both operands; -1 is a poison lane."""
    lanes = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in mask)
    return e.assign(f"shufflevector {type} {left}, {type} {right}, <{len(mask)} x i32> <{lanes}>")


def permute(e: FunctionEmitter, value: SSAValue, mask: Sequence[int]) -> str:
    """Return the lanes `mask` of a vector; no code is emitted for the identity."""
    if list(mask) == list(range(lanes(value.type))):
        return e.value(value)
    return shuffle(e, llvm_type(value.type), e.value(value), "poison", mask)


# Building


@emits(vector.BroadcastOp)
def emit_broadcast(e: FunctionEmitter, op: vector.BroadcastOp) -> None:
    source, result = op.source, op.vector
    if not isinstance(source.type, VectorType):
        element = llvm_type(source.type)
        e.define(result, splat_value(e, element, e.value(source), lanes(result.type)))
        return
    from_shape, to_shape = shape_of(source), shape_of(result)
    bits = 8 * byte_size(element_of(source.type)) * lanes(source.type)
    if (
        from_shape == to_shape[-len(from_shape) :]
        and bits in (16, 32, 64)
        and not is_bool(source.type)
    ):
        # Broadcasting a few narrow elements is broadcasting one word, which loads can do.
        word, count = integer(bits), lanes(result.type) // lanes(source.type)
        packed = e.assign(f"bitcast {llvm_type(source.type)} {e.value(source)} to {word}")
        spread = splat_value(e, word, packed, count)
        e.define_result(op, f"bitcast <{count} x {word}> {spread} to {llvm_type(result.type)}")
        return
    padded = (1,) * (len(to_shape) - len(from_shape)) + from_shape
    strides = [0 if extent == 1 else s for extent, s in zip(padded, row_major(padded), strict=True)]
    mask = [
        sum(c * s for c, s in zip(point, strides, strict=True))
        for point in product(*map(range, to_shape))
    ]
    e.define(result, permute(e, source, mask))


def splat_value(e: FunctionEmitter, element: LlvmType, value: str, count: int) -> str:
    """Return a vector with a scalar in every lane; a constant stays a constant."""
    type = LlvmType.vector(element, count)
    if isinstance(value, Literal) and value.numbers is not None:
        return literal(type, *value.numbers)
    first = e.assign(f"insertelement {type} poison, {element} {value}, i64 0")
    return e.assign(f"shufflevector {type} {first}, {type} poison, <{count} x i32> zeroinitializer")


@emits(vector_.FromElementsOp)
def emit_from_elements(e: FunctionEmitter, op: vector_.FromElementsOp) -> None:
    type = llvm_type(op.result.type)
    element = llvm_type(element_of(op.result.type))
    built: str = poison(type)
    for number, value in enumerate(op.elements):
        built = e.assign(f"insertelement {type} {built}, {element} {e.value(value)}, i64 {number}")
    e.define(op.result, built)


@emits(vector_.StepOp)
def emit_step(e: FunctionEmitter, op: vector_.StepOp) -> None:
    e.define(op.result, literal(llvm_type(op.result.type), *range(lanes(op.result.type))))


@emits(vector_.ConstantMaskOp)
def emit_constant_mask(e: FunctionEmitter, op: vector_.ConstantMaskOp) -> None:
    e.define(op.result, mask_literal(shape_of(op.result), op.mask_dim_sizes.get_values()))


@emits(vector.CreateMaskOp)
def emit_create_mask(e: FunctionEmitter, op: vector.CreateMaskOp) -> None:
    """A lane is 1 if its coordinates are below the sizes, which may be out of range."""
    shape = shape_of(op.mask_vector)
    sizes = [e.constant_index(size) for size in op.mask_dim_sizes]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes):
        e.define(op.mask_vector, mask_literal(shape, known))
        return
    type = llvm_type(op.mask_vector.type)
    count = lanes(op.mask_vector.type)
    places = LlvmType.vector(I32, count)
    total: str | None = None
    for dimension, size in enumerate(op.mask_dim_sizes):
        index = e.index_type
        low = e.unary_intrinsic("smax", index, e.value(size), "0")
        narrow = e.unary_intrinsic("smin", index, low, str(shape[dimension]))
        if index != I32:
            narrow = e.assign(f"trunc {index} {narrow} to i32")
        bound = splat_value(e, I32, narrow, count)
        coordinates = [point[dimension] for point in product(*map(range, shape))]
        part = e.assign(f"icmp slt {places} {literal(places, *coordinates)}, {bound}")
        total = part if total is None else e.assign(f"and {type} {total}, {part}")
    assert total is not None
    e.define(op.mask_vector, total)


def mask_literal(shape: Sequence[int], sizes: Sequence[int]) -> Literal:
    """Return a constant mask that is 1 where every coordinate is below its size."""
    bits = [
        all(c < size for c, size in zip(point, sizes, strict=True))
        for point in product(*map(range, shape))
    ]
    return literal(LlvmType.vector(I1, len(bits)), *bits)


# Extraction and insertion


def _position(
    e: FunctionEmitter, op: vector.ExtractOp | vector.InsertOp, shape: Sequence[int]
) -> LinearAddress:
    """Return the flat lane at which a position starts."""
    dynamic = iter(op.dynamic_position)
    form = LinearAddress.constant(0)
    for value, stride in zip(op.static_position.get_values(), row_major(shape), strict=False):
        index = e.index(next(dynamic)) if value == DYNAMIC_INDEX else LinearAddress.constant(value)
        form = form.plus(index.scaled(stride))
    return form


@emits(vector.ExtractOp)
def emit_extract(e: FunctionEmitter, op: vector.ExtractOp) -> None:
    start = _position(e, op, shape_of(op.vector))
    if not isinstance(op.result.type, VectorType):
        type = llvm_type(op.vector.type)
        e.define_result(
            op, f"extractelement {type} {e.value(op.vector)}, i64 {e.materialize(start)}"
        )
        return
    if start.terms:
        raise UnsupportedError("a computed position should name one element", op=op)
    mask = range(start.const, start.const + lanes(op.result.type))
    e.define(op.result, permute(e, op.vector, mask))


@emits(vector.InsertOp)
def emit_insert(e: FunctionEmitter, op: vector.InsertOp) -> None:
    start = _position(e, op, shape_of(op.dest))
    type = llvm_type(op.dest.type)
    if not isinstance(op.source.type, VectorType):
        element = llvm_type(op.source.type)
        e.define_result(
            op,
            f"insertelement {type} {e.value(op.dest)}, {element} {e.value(op.source)}, "
            f"i64 {e.materialize(start)}",
        )
        return
    if start.terms:
        raise UnsupportedError("a computed position should name one element", op=op)
    placed = range(start.const, start.const + lanes(op.source.type))
    e.define(op.result, _overlay(e, op.source, op.dest, list(placed)))


def _overlay(e: FunctionEmitter, source: SSAValue, dest: SSAValue, placed: Sequence[int]) -> str:
    """Return `dest` with lane `placed[i]` replaced by lane i of `source`."""
    count = lanes(dest.type)
    widened = permute(e, source, [*range(lanes(source.type))] + [-1] * (count - len(placed)))
    mask = list(range(count))
    for lane, target in enumerate(placed):
        mask[target] = count + lane
    return shuffle(e, llvm_type(dest.type), e.value(dest), widened, mask)


def _slice_lanes(shape: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> list[int]:
    strides = row_major(shape)
    return [
        sum((o + c) * s for o, c, s in zip(offsets, point, strides, strict=True))
        for point in product(*map(range, sizes))
    ]


def _int_values(op: Operation, name: str) -> list[int]:
    return [value.value.data for value in op.properties[name]]  # pyright: ignore


@emits(vector_.ExtractStridedSliceOp)
def emit_extract_strided_slice(e: FunctionEmitter, op: vector_.ExtractStridedSliceOp) -> None:
    shape, sizes = shape_of(op.vector), shape_of(op.result)
    offsets = _int_values(op, "offsets")
    offsets += [0] * (len(shape) - len(offsets))
    e.define(op.result, permute(e, op.vector, _slice_lanes(shape, offsets, sizes)))


@emits(vector_.InsertStridedSliceOp)
def emit_insert_strided_slice(e: FunctionEmitter, op: vector_.InsertStridedSliceOp) -> None:
    shape, sizes = shape_of(op.dest), shape_of(op.source)
    padded = (1,) * (len(shape) - len(sizes)) + sizes
    placed = _slice_lanes(shape, _int_values(op, "offsets"), padded)
    e.define(op.result, _overlay(e, op.source, op.dest, placed))


@emits(vector_.ShapeCastOp)
def emit_shape_cast(e: FunctionEmitter, op: vector_.ShapeCastOp) -> None:
    e.define(op.result, e.value(op.source))


@emits(vector_.TransposeOp)
def emit_transpose(e: FunctionEmitter, op: vector_.TransposeOp) -> None:
    strides = row_major(shape_of(op.vector))
    moved = [strides[d] for d in op.permutation.get_values()]
    mask = [
        sum(c * s for c, s in zip(point, moved, strict=True))
        for point in product(*map(range, shape_of(op.result)))
    ]
    e.define(op.result, permute(e, op.vector, mask))


@emits(vector.ShuffleOp)
def emit_shuffle(e: FunctionEmitter, op: vector.ShuffleOp) -> None:
    first, second = lanes(op.v1.type), lanes(op.v2.type)
    shape = shape_of(op.v1)
    row = prod(shape[1:])
    widest = max(first, second)
    left = permute(e, op.v1, [*range(first)] + [-1] * (widest - first))
    right = permute(e, op.v2, [*range(second)] + [-1] * (widest - second))
    mask: list[int] = []
    for position in op.mask.get_values():
        for lane in range(position * row, (position + 1) * row):
            mask.append(-1 if position < 0 else lane if lane < first else lane - first + widest)
    type = f"<{widest} x {llvm_type(element_of(op.v1.type))}>"
    e.define(op.result, shuffle(e, type, left, right, mask))


@emits(vector.BitcastOp)
def emit_bitcast(e: FunctionEmitter, op: vector.BitcastOp) -> None:
    source = llvm_type(op.source.type)
    e.define_result(op, f"bitcast {source} {e.value(op.source)} to {llvm_type(op.result.type)}")


# Arithmetic


@emits(vector.FMAOp)
def emit_fma(e: FunctionEmitter, op: vector.FMAOp) -> None:
    type = op.results[0].type
    operands = [computing_value(e, value) for value in op.operands]
    result = e.unary_intrinsic("fma", computing_type(type), *operands)
    e.define(op.results[0], from_computing(e, result, type))


_REDUCE_INTEGER = {
    "add": "add",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "minsi": "smin",
    "maxsi": "smax",
    "minui": "umin",
    "maxui": "umax",
}
_REDUCE_FLOAT_ORDER = {
    "maximumf": ("ogt", True),
    "minimumf": ("olt", True),
    "maxnumf": ("ogt", False),
    "minnumf": ("olt", False),
}


@emits(vector_.ReductionOp)
def emit_reduction(e: FunctionEmitter, op: vector_.ReductionOp) -> None:
    kind = op.kind.data.value
    if kind in _REDUCE_FLOAT_ORDER:
        result = _reduce_by_halves(e, op, *_REDUCE_FLOAT_ORDER[kind])
    elif isinstance(op.dest.type, AnyFloat):
        result = _reduce_float_sum(e, op, kind)
    else:
        result = _reduce_integers(e, op, kind)
    e.define(op.dest, from_computing(e, result, op.dest.type))


def _reduce_integers(e: FunctionEmitter, op: vector_.ReductionOp, kind: str) -> str:
    type, element = llvm_type(op.vector.type), llvm_type(op.dest.type)
    name = f"llvm.vector.reduce.{_REDUCE_INTEGER[kind]}.{type.mangled}"
    result = e.call_intrinsic(name, element, [(type, e.value(op.vector))])
    if op.acc is None:
        return result
    combine = _REDUCE_INTEGER[kind]
    if combine[0] in "su" and combine.endswith(("min", "max")):
        return e.unary_intrinsic(combine, element, e.value(op.acc), result)
    return e.assign(f"{combine} {element} {e.value(op.acc)}, {result}")


def _reduce_float_sum(e: FunctionEmitter, op: vector_.ReductionOp, kind: str) -> str:
    """Emit a sum or product, in lane order unless reassociation is allowed."""
    type, element = computing_type(op.vector.type), computing_type(op.dest.type)
    name = f"llvm.vector.reduce.f{kind}.{type.mangled}"
    neutral = "-0.0" if kind == "add" else "1.0"
    start = neutral if op.acc is None else computing_value(e, op.acc)
    vector = computing_value(e, op.vector)
    return e.call_intrinsic(name, element, [(element, start), (type, vector)], fast_flags(op))


def _reduce_by_halves(
    e: FunctionEmitter, op: vector_.ReductionOp, predicate: str, keeps_nan: bool
) -> str:
    """Emit a float maximum or minimum, folding the upper half of the lanes onto the lower."""
    element = computing_type(op.dest.type)
    value, count = computing_value(e, op.vector), lanes(op.vector.type)
    never_nan = "nnan" in fast_flags(op) or "fast" in fast_flags(op)
    while count > 1:
        half = count // 2
        type, folded_type = (LlvmType.vector(element, each) for each in (count, half))
        low = shuffle(e, type, value, "poison", range(half))
        high = shuffle(e, type, value, "poison", range(half, 2 * half))
        folded = float_min_max(e, folded_type, low, high, predicate, keeps_nan, never_nan)
        if count % 2:
            last = e.assign(f"extractelement {type} {value}, i64 {count - 1}")
            first = e.assign(f"extractelement {folded_type} {folded}, i64 0")
            best = float_min_max(e, element, first, last, predicate, keeps_nan, never_nan)
            folded = e.assign(f"insertelement {folded_type} {folded}, {element} {best}, i64 0")
        value, count = folded, half
    scalar = e.assign(f"extractelement <1 x {element}> {value}, i64 0")
    if op.acc is None:
        return scalar
    start = computing_value(e, op.acc)
    return float_min_max(e, element, start, scalar, predicate, keeps_nan, never_nan)
