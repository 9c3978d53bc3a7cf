"""vector: building, slicing and reducing vectors. Vectors of any rank are flat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from xdsl.dialects import vector
from xdsl.dialects.builtin import DYNAMIC_INDEX, VectorType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, SSAValue

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.types import is_mask, lanes, mask_type
from tcopt.backends.opencl.emit.writer import PRECEDENCE, OpenClWriter, Text
from tcopt.backends.opencl.ops.arith import mask_literal
from tcopt.dialects import vector_
from tcopt.dialects.vector_.common import int_values
from tcopt.support.errors import UnsupportedError


def lane(text: str, number: int) -> str:
    """Return one lane of a vector; for a literal, the element itself."""
    head, _, listed = text.partition(")(")
    if listed and head.startswith("(") and text.count("(") == 2:
        numbers = [part.strip() for part in listed.removesuffix(")").split(",")]
        return numbers[0] if len(numbers) == 1 else numbers[number]
    return f"{text if text.isidentifier() else f'({text})'}.s{number:x}"


def vector_of(type: str, elements: Sequence[str]) -> str:
    """Return a vector of elements."""
    unique = set(elements)
    return f"({type})({', '.join(elements if len(unique) > 1 else elements[:1])})"


def _flat(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major layout."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, VectorType)
    return value.type.get_shape()


def _type(k: OpenClWriter, value: SSAValue) -> str:
    """Return the type of a result; masks have 32-bit elements."""
    return mask_type(32, lanes(value.type)) if is_mask(value.type) else k.value_type(value.type)


def _source(k: OpenClWriter, value: SSAValue) -> str:
    return k.mask(value, 32, 100) if is_mask(value.type) else k.text(value, 100)


def picked(k: OpenClWriter, value: SSAValue, picks: Sequence[int]) -> str:
    """Return the lanes `picks` of a vector."""
    count = lanes(value.type)
    if list(picks) == list(range(count)):
        return _source(k, value)
    text = _source(k, value)
    if len(picks) in (1, 2, 3, 4, 8, 16) and not text.startswith("("):
        return f"{text}.s{''.join(f'{pick:x}' for pick in picks)}"
    type = mask_type(32, len(picks)) if is_mask(value.type) else None
    assert isinstance(value.type, VectorType)
    type = type or k.value_type(VectorType(value.type.element_type, [len(picks)]))
    return vector_of(type, [lane(text, pick) for pick in picks])


@writes(vector.BroadcastOp)
def write_broadcast(k: OpenClWriter, op: vector.BroadcastOp) -> None:
    source, result = op.source, op.vector
    if not isinstance(source.type, VectorType):
        text = k.text(source)
        if is_mask(result.type):
            text = f"-(int){k.text(source, PRECEDENCE['unary'])}"
        k.pure(op, f"({_type(k, result)})({text})")
        return
    from_shape, to_shape = _shape(source), _shape(result)
    padded = (1,) * (len(to_shape) - len(from_shape)) + from_shape
    strides = [0 if extent == 1 else s for extent, s in zip(padded, _flat(padded), strict=True)]
    picks = [
        sum(c * s for c, s in zip(point, strides, strict=True))
        for point in product(*map(range, to_shape))
    ]
    k.pure(op, picked(k, source, picks))


@writes(vector_.FromElementsOp)
def write_from_elements(k: OpenClWriter, op: vector_.FromElementsOp) -> None:
    elements = k.texts(op.elements)
    if is_mask(op.result.type):
        elements = [f"-(int)({element})" for element in elements]
    k.pure(op, vector_of(_type(k, op.result), elements))


@writes(vector_.StepOp)
def write_step(k: OpenClWriter, op: vector_.StepOp) -> None:
    k.define(op.result, vector_of(_type(k, op.result), _numbers(op.result)))


def _numbers(value: SSAValue) -> list[str]:
    return [str(number) for number in range(lanes(value.type))]


@writes(vector_.ConstantMaskOp)
def write_constant_mask(k: OpenClWriter, op: vector_.ConstantMaskOp) -> None:
    sizes = op.mask_dim_sizes.get_values()
    points = product(*map(range, _shape(op.result)))
    bits = [all(c < size for c, size in zip(point, sizes, strict=True)) for point in points]
    k.define(op.result, mask_literal(bits, lanes(op.result.type)))


@writes(vector.CreateMaskOp)
def write_create_mask(k: OpenClWriter, op: vector.CreateMaskOp) -> None:
    type, parts = _type(k, op.mask_vector), list[str]()
    for dimension, size in enumerate(op.mask_dim_sizes):
        points = product(*map(range, _shape(op.mask_vector)))
        coordinates = vector_of(type, [str(point[dimension]) for point in points])
        parts.append(f"({coordinates} < {k.text(size, PRECEDENCE['<'] + 1)})")
    k.pure(op, Text(" & ".join(parts), PRECEDENCE["&"] if len(parts) > 1 else 100))


@writes(vector_.ShapeCastOp)
def write_shape_cast(k: OpenClWriter, op: vector_.ShapeCastOp) -> None:
    k.define(op.result, Text(_source(k, op.source)))


# Extraction and insertion


def _start(op: vector.ExtractOp | vector.InsertOp, shape: Sequence[int]) -> int:
    """Return the flat lane at which a position starts."""
    position = op.static_position.get_values()
    if DYNAMIC_INDEX in position:
        raise UnsupportedError("OpenCL C does not support computed lane indices", op=op)
    return sum(value * stride for value, stride in zip(position, _flat(shape), strict=False))


@writes(vector.ExtractOp)
def write_extract(k: OpenClWriter, op: vector.ExtractOp) -> None:
    start = _start(op, _shape(op.vector))
    if isinstance(op.result.type, VectorType):
        k.pure(op, picked(k, op.vector, range(start, start + lanes(op.result.type))))
    elif is_mask(op.vector.type):
        k.pure(op, Text(f"{lane(_source(k, op.vector), start)} != 0", PRECEDENCE["!="]))
    else:
        k.pure(op, lane(_source(k, op.vector), start))


@writes(vector.InsertOp)
def write_insert(k: OpenClWriter, op: vector.InsertOp) -> None:
    start = _start(op, _shape(op.dest))
    if isinstance(op.source.type, VectorType):
        _overlay(k, op, op.source, op.dest, range(start, start + lanes(op.source.type)))
        return
    text = k.text(op.source)
    if is_mask(op.dest.type):
        text = f"-(int)({text})"
    elements = [lane(_source(k, op.dest), number) for number in range(lanes(op.dest.type))]
    elements[start] = text
    k.pure(op, vector_of(_type(k, op.result), elements))


def _overlay(
    k: OpenClWriter, op: Operation, source: SSAValue, dest: SSAValue, placed: Sequence[int]
) -> None:
    """Return `dest` with lane `placed[i]` replaced by lane i of `source`."""
    elements = [lane(_source(k, dest), number) for number in range(lanes(dest.type))]
    for number, target in enumerate(placed):
        elements[target] = lane(_source(k, source), number)
    k.pure(op, vector_of(_type(k, op.results[0]), elements))


def _slice(shape: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [
        sum((o + c) * s for o, c, s in zip(offsets, point, _flat(shape), strict=True))
        for point in product(*map(range, sizes))
    ]


@writes(vector_.ExtractStridedSliceOp)
def write_extract_slice(k: OpenClWriter, op: vector_.ExtractStridedSliceOp) -> None:
    shape = _shape(op.vector)
    offsets = int_values(op.offsets)
    offsets = (*offsets, *[0] * (len(shape) - len(offsets)))
    k.pure(op, picked(k, op.vector, _slice(shape, offsets, _shape(op.result))))


@writes(vector_.InsertStridedSliceOp)
def write_insert_slice(k: OpenClWriter, op: vector_.InsertStridedSliceOp) -> None:
    shape, sizes = _shape(op.dest), _shape(op.source)
    padded = (1,) * (len(shape) - len(sizes)) + sizes
    _overlay(k, op, op.source, op.dest, _slice(shape, int_values(op.offsets), padded))


@writes(vector_.TransposeOp)
def write_transpose(k: OpenClWriter, op: vector_.TransposeOp) -> None:
    strides = _flat(_shape(op.vector))
    moved = [strides[d] for d in op.permutation.get_values()]
    points = product(*map(range, _shape(op.result)))
    picks = [sum(c * s for c, s in zip(point, moved, strict=True)) for point in points]
    k.pure(op, picked(k, op.vector, picks))


@writes(vector.ShuffleOp)
def write_shuffle(k: OpenClWriter, op: vector.ShuffleOp) -> None:
    picks = [max(pick, 0) for pick in op.mask.get_values()]
    count = lanes(op.v1.type)
    if all(pick < count for pick in picks):
        k.pure(op, picked(k, op.v1, picks))
        return
    texts = _source(k, op.v1), _source(k, op.v2)
    elements = [lane(texts[pick // count], pick % count) for pick in picks]
    k.pure(op, vector_of(_type(k, op.result), elements))


# Reductions

_OPERATORS = {"add": "+", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_FUNCTIONS = {
    "minnumf": "fmin",
    "maxnumf": "fmax",
    "minsi": "min",
    "maxsi": "max",
    "minui": "min",
    "maxui": "max",
}
_NAN_WINS = {"minimumf": ("minimum", "fmin"), "maximumf": ("maximum", "fmax")}


@writes(vector_.ReductionOp)
def write_reduction(k: OpenClWriter, op: vector_.ReductionOp) -> None:
    """Combine the halves of a vector recursively if reassociation is allowed."""
    kind = op.kind.data.value
    count = lanes(op.vector.type)
    text = _source(k, op.vector)
    if not text.isidentifier():
        name = k.fresh("lanes")
        k.line(f"const {k.type_of(op.vector)} {name} = {text};")
        text = name
    terms = [lane(text, number) for number in range(count)]
    combined = _halved(k, op, kind, terms) if _is_free(op) else terms[0]
    if not _is_free(op):
        if op.acc is not None:
            combined = _combine(k, op, kind, k.text(op.acc, 100), combined)
        for term in terms[1:]:
            combined = _combine(k, op, kind, combined, term)
    elif op.acc is not None:
        combined = _combine(k, op, kind, k.text(op.acc, 100), combined)
    k.pure(op, combined)


def _is_free(op: vector_.ReductionOp) -> bool:
    return FastMathFlag.REASSOC in op.fastmath.data


def _halved(k: OpenClWriter, op: vector_.ReductionOp, kind: str, terms: list[str]) -> str:
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        rest = terms[half:]
        pairs = [_combine(k, op, kind, a, b) for a, b in zip(terms, rest, strict=False)]
        terms = [*pairs, *terms[len(rest) : half]]
    return terms[0]


def _combine(k: OpenClWriter, op: vector_.ReductionOp, kind: str, a: str, b: str) -> str:
    if kind in _OPERATORS:
        return f"({a} {_OPERATORS[kind]} {b})"
    if kind in _NAN_WINS:
        type = k.value_type(op.dest.type)
        name, function = _NAN_WINS[kind]
        chosen = f"isunordered(a, b) ? a + b : {function}(a, b)"
        definition = f"inline {type} {name}_{type}({type} a, {type} b) {{\n  return {chosen};\n}}"
        k.helpers.need(f"{name}_{type}", definition)
        return f"{name}_{type}({a}, {b})"
    if kind in ("minui", "maxui"):
        type = f"u{k.value_type(op.dest.type)}"
        return f"as_{type[1:]}({_FUNCTIONS[kind]}(as_{type}({a}), as_{type}({b})))"
    return f"{_FUNCTIONS[kind]}({a}, {b})"
