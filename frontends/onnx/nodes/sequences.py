"""Operators on sequences and optionals, which have static length and are resolved during import."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import shape_of
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.model.values import (
    NOTHING,
    MapsValue,
    OptionalValue,
    SequenceValue,
    Value,
    Values,
)
from tcopt.support.data.strings import TEXT
from tcopt.support.registries.registration import Registry

_Handler = Callable[[NodeContext, Values], Value]
SEQUENCE_HANDLERS: Registry[str, _Handler] = Registry("handler of operator on sequences")


def sequence_handler(op_type: str, operands: Values) -> _Handler | None:
    """Return the handler of an operator on sequences or optionals; None for tensor operators."""
    if op_type == "Identity" and not isinstance(operands[0], SequenceValue | OptionalValue):
        return None
    return SEQUENCE_HANDLERS.get(op_type)


def _handles(*op_types: str) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        for op_type in op_types:
            SEQUENCE_HANDLERS.add(op_type, handler)
        return handler

    return register


def _sequence(ctx: NodeContext, value: Value) -> tuple[SSAValue, ...]:
    if not isinstance(value, SequenceValue):
        ctx.malformed("its operand is not a sequence")
    return value.items


def _made(ctx: NodeContext, items: Sequence[SSAValue]) -> SequenceValue:
    """Create a sequence; the total length of all sequences is limited."""
    builder = ctx.builder
    builder.sequence_items += len(items)
    most = builder.limits.made_elements
    ctx.check(
        builder.sequence_items <= most,
        f"the total number of tensors in sequences exceeds the limit made-elements={most}",
    )
    return SequenceValue(tuple(items))


def _tensor(ctx: NodeContext, value: Value) -> SSAValue:
    if not isinstance(value, SSAValue):
        ctx.malformed("its operand is not a tensor")
    return value


def _place(ctx: NodeContext, value: Value, count: int) -> int:
    """Return a valid index into a sequence, which must be known."""
    (place,) = ctx.known_ints(_tensor(ctx, value), "the position")
    ctx.check(-count <= place < count, f"position {place} is outside of {count} elements")
    return place % count


@_handles("SequenceEmpty")
def _empty(ctx: NodeContext, operands: Values) -> Value:
    return SequenceValue(())


@_handles("SequenceConstruct")
def _construct(ctx: NodeContext, operands: Values) -> Value:
    return _made(ctx, [_tensor(ctx, value) for value in operands])


@_handles("SequenceInsert")
def _insert(ctx: NodeContext, operands: Values) -> Value:
    items = _sequence(ctx, operands[0])
    place = len(items)
    if len(operands) > 2 and operands[2] is not None:
        (place,) = ctx.known_ints(_tensor(ctx, operands[2]), "the position")
        ctx.check(abs(place) <= len(items), f"position {place} is outside of {len(items)} elements")
        place += len(items) if place < 0 else 0
    return _made(ctx, (*items[:place], _tensor(ctx, operands[1]), *items[place:]))


@_handles("SequenceErase")
def _erase(ctx: NodeContext, operands: Values) -> Value:
    items = _sequence(ctx, operands[0])
    place = len(items) - 1
    if len(operands) > 1 and operands[1] is not None:
        place = _place(ctx, operands[1], len(items))
    ctx.check(items, "the sequence is empty")
    return _made(ctx, (*items[:place], *items[place + 1 :]))


@_handles("SequenceAt")
def _at(ctx: NodeContext, operands: Values) -> Value:
    items = _sequence(ctx, operands[0])
    return items[_place(ctx, operands[1], len(items))]


@_handles("SequenceLength")
def _length(ctx: NodeContext, operands: Values) -> Value:
    return ctx.array(np.array(len(_sequence(ctx, operands[0])), np.int64))


def _check_parts(ctx: NodeContext, count: int) -> None:
    most = ctx.builder.limits.nodes
    ctx.check(count <= most, f"{count} parts are more than the limit nodes={most}")


def _equal_parts(ctx: NodeContext, extent: int, size: int) -> list[int]:
    whole, rest = divmod(extent, size)
    _check_parts(ctx, whole)
    return [size] * whole + ([rest] if rest else [])


@_handles("SplitToSequence")
def _split(ctx: NodeContext, operands: Values) -> Value:
    x = _tensor(ctx, operands[0])
    shape = shape_of(x)
    axis = ctx.axis(ctx.get_int("axis"), len(shape))
    sizes, keep = list[int](), ctx.get_bool("keepdims")
    if len(operands) > 1 and operands[1] is not None:
        given, keep = _tensor(ctx, operands[1]), True
        sizes = ctx.known_ints(given, "the split")
        if shape_of(given) == ():
            ctx.check(sizes[0] > 0, f"a part of size {sizes[0]} is not positive")
            sizes = _equal_parts(ctx, shape[axis], sizes[0])
    else:
        sizes = _equal_parts(ctx, shape[axis], 1)
    _check_parts(ctx, len(sizes))
    ctx.check(
        min(sizes, default=0) >= 0 and sum(sizes) == shape[axis],
        f"parts of {sizes[:8]} do not make {shape[axis]}",
    )
    parts: list[SSAValue] = []
    start = 0
    for size in sizes:
        starts, extents = [0] * len(shape), list(shape)
        starts[axis], extents[axis] = start, size
        part = ctx.moved(x, graph.SliceOp(x, starts, extents))
        if not keep:
            part = ctx.moved(part, graph.ReshapeOp(part, (*shape[:axis], *shape[axis + 1 :])))
        parts.append(part)
        start += size
    return _made(ctx, parts)


@_handles("ConcatFromSequence")
def _concat(ctx: NodeContext, operands: Values) -> Value:
    items: Sequence[SSAValue] = _sequence(ctx, operands[0])
    ctx.check(items, "the sequence is empty")
    is_text = ctx.is_text(items[0])
    new = ctx.get_bool("new_axis")
    rank = len(shape_of(items[0])) + new
    axis = ctx.axis(ctx.get_int("axis"), rank)
    if new:
        shapes = [shape_of(item) for item in items]
        items = [
            ctx.emit(graph.ReshapeOp(item, (*s[:axis], 1, *s[axis:])))
            for item, s in zip(items, shapes, strict=True)
        ]
    whole = ctx.emit(graph.ConcatOp(items, axis=axis))
    return ctx.text(whole) if is_text else whole


@_handles("ai.onnx.ml.ZipMap")
def _zip_map(ctx: NodeContext, operands: Values) -> Value:
    """Return a map from labels to scores for each row."""
    scores = _tensor(ctx, operands[0])
    texts, numbers = ctx.get_strings("classlabels_strings"), ctx.get_ints("classlabels_int64s")
    ctx.check((texts is None) != (numbers is None), "there should be one kind of labels")
    keys = np.array(texts, TEXT) if texts is not None else np.array(numbers, np.int64)
    shape = shape_of(scores)
    ctx.check(len(shape) in (1, 2), "scores should have one dimension or two")
    ctx.check(shape[-1] == len(keys), f"{len(keys)} labels for {shape[-1]} scores")
    rows = ctx.emit(graph.ReshapeOp(scores, (1, *shape))) if len(shape) == 1 else scores
    return MapsValue(ctx.array(keys), rows)


@_handles("Optional")
def _optional(ctx: NodeContext, operands: Values) -> Value:
    return operands[0] if operands and operands[0] is not None else NOTHING


@_handles("OptionalHasElement")
def _has_element(ctx: NodeContext, operands: Values) -> Value:
    value = operands[0] if operands else None
    return ctx.array(np.array(not (value is None or isinstance(value, OptionalValue))))


@_handles("OptionalGetElement")
def _get_element(ctx: NodeContext, operands: Values) -> Value:
    value = operands[0]
    ctx.check(value is not None and not isinstance(value, OptionalValue), "there is no element")
    return value


@_handles("Identity")
def _identity(ctx: NodeContext, operands: Values) -> Value:
    return operands[0]
