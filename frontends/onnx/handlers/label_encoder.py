"""Handlers that map keys to values: labels and categories of numbers and strings (ai.onnx.ml)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import is_float
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.data.strings import TEXT, is_text

_TABLE_LIMIT = 1 << 16
"""Maximum range of integer keys for a table lookup; otherwise all keys are compared."""

_KINDS = ("strings", "int64s", "floats", "tensor")
_UNUSED = "_Unused"


def positions(ctx: NodeContext, x: SSAValue, keys: np.ndarray) -> SSAValue:
    """Return the index of each element in `keys`, the first if it is repeated; len(keys) if absent.

    Args:
        keys: a vector; strings if the data are strings.
    """
    ctx.check(len(keys), "there are no keys")
    codes = ctx.builder.strings.encode(keys) if is_text(keys.dtype) else keys
    ctx.check(is_text(keys.dtype) == ctx.is_text(x), "keys and data differ in type")
    least, most = (
        (int(codes.min()), int(codes.max())) if _are_integers(codes) else (0, _TABLE_LIMIT)
    )
    if most - least < _TABLE_LIMIT:
        return _in_table(ctx, x, codes, least, most)
    return _among(ctx, x, codes)


def _are_integers(codes: np.ndarray) -> bool:
    return codes.dtype.kind in "iu" and codes.size > 0


def _in_table(ctx: NodeContext, x: SSAValue, codes: np.ndarray, least: int, most: int) -> SSAValue:
    table = np.full(most - least + 2, len(codes), np.int64)
    table[codes[::-1].astype(np.int64) - least] = np.arange(len(codes))[::-1]
    wide = cast(ctx, x, i64)
    inside = ctx.emit(
        graph.AndOp(
            ctx.emit(graph.CompareOp(wide, ctx.literal(least, wide), predicate="ge")),
            ctx.emit(graph.CompareOp(wide, ctx.literal(most, wide), predicate="le")),
        )
    )
    place = ctx.emit(graph.SubOp(wide, ctx.literal(least, wide)))
    # Values out of range read the last entry, which stands for absent keys.
    place = ctx.emit(graph.SelectOp(inside, place, ctx.literal(most - least + 1, wide)))
    return ctx.emit(graph.GatherOp(ctx.array(table), place, axis=0))


def _among(ctx: NodeContext, x: SSAValue, codes: np.ndarray) -> SSAValue:
    """Compare with all keys; NaN keys match NaN data."""
    shape = ctx.shape(x)
    column = reshaped(ctx, x, (*shape, 1))
    row = ctx.literal(codes, x)
    equal = ctx.emit(graph.CompareOp(column, row, predicate="eq"))
    if is_float(ctx.element(x)) and np.isnan(codes).any():
        none = ctx.emit(graph.CompareOp(column, column, predicate="ne"))
        equal = ctx.emit(graph.OrOp(equal, ctx.emit(graph.AndOp(none, ctx.array(np.isnan(codes))))))
    order = ctx.array(np.arange(len(codes), dtype=np.int64))
    found = ctx.emit(graph.SelectOp(equal, order, ctx.array(np.array(len(codes), np.int64))))
    return ctx.emit(graph.ReduceOp(found, kind="min", axes=[len(shape)]))


def looked_up(ctx: NodeContext, place: SSAValue, values: np.ndarray, default: object) -> SSAValue:
    """Return the value at each index, or the default for the index after the last."""
    last = np.array([default], values.dtype)
    table = ctx.array(np.concatenate([values, last]))
    found = ctx.emit(graph.GatherOp(table, place, axis=0))
    return ctx.text(found) if is_text(values.dtype) else found


def _by_classes(ctx: NodeContext) -> SSAValue:
    """Map strings to numbers or numbers to strings, as in the first version of the operator."""
    classes = np.array(ctx.get_strings("classes_strings") or [], TEXT)
    numbers = np.arange(len(classes), dtype=np.int64)
    return _mapped(ctx, classes, numbers)


def _mapped(ctx: NodeContext, texts: np.ndarray, numbers: np.ndarray) -> SSAValue:
    """Map strings to numbers or numbers to strings, depending on the type of the data."""
    x = ctx.input(0)
    if ctx.is_text(x):
        default = ctx.get_int("default_int64", -1)
        return looked_up(ctx, positions(ctx, x, texts), numbers, default)
    default = ctx.get_string("default_string", _UNUSED)
    return looked_up(ctx, positions(ctx, x, numbers), texts, default)


@handler("ai.onnx.ml.CategoryMapper")
def category_mapper(ctx: NodeContext) -> SSAValue:
    """Numbers of strings, or strings of numbers."""
    texts = np.array(ctx.get_strings("cats_strings") or [], TEXT)
    numbers = np.array(ctx.get_ints("cats_int64s") or [], np.int64)
    ctx.check(len(texts) == len(numbers), "cats_strings and cats_int64s differ in length")
    return _mapped(ctx, texts, numbers)


@handler("ai.onnx.ml.LabelEncoder")
def label_encoder(ctx: NodeContext) -> SSAValue:
    """The value of each key."""
    if ctx.has("classes_strings"):
        return _by_classes(ctx)
    x, keys, values = ctx.input(0), _listed(ctx, "keys"), _listed(ctx, "values")
    ctx.check(len(keys) == len(values), f"{len(keys)} keys for {len(values)} values")
    return looked_up(ctx, positions(ctx, x, keys), values, _default(ctx, values))


def _listed(ctx: NodeContext, name: str) -> np.ndarray:
    """Return the keys or values, from one of several attributes."""
    given = [kind for kind in _KINDS if ctx.has(f"{name}_{kind}")]
    ctx.check(len(given) == 1, f"there should be one of {name}_strings, {name}_int64s and so on")
    match given[0]:
        case "strings":
            return np.array(ctx.get_strings(f"{name}_strings"), TEXT)
        case "int64s":
            return np.array(ctx.get_ints(f"{name}_int64s"), np.int64)
        case "floats":
            return np.array(ctx.get_floats(f"{name}_floats"), np.float32)
        case _:
            found = ctx.get_tensor(f"{name}_tensor")
            if found is None or found.ndim > 1:
                ctx.malformed(f"{name}_tensor should be a vector")
            return found.reshape(-1)


def _default(ctx: NodeContext, values: np.ndarray) -> object:
    """Return the value for data that is not a key."""
    given = ctx.get_tensor("default_tensor")
    if given is not None:
        ctx.check(
            given.size == 1 and given.dtype == values.dtype, "default_tensor should be one value"
        )
        return given.reshape(-1)[0]
    if is_text(values.dtype):
        return ctx.get_string("default_string", _UNUSED)
    if values.dtype.kind in "iu":
        return ctx.get_int("default_int64", -1)
    return ctx.get_float("default_float", -0.0)
