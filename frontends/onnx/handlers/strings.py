"""Handlers of string operators."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import broadcast_shapes
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.label_encoder import positions
from tcopt.frontends.onnx.handlers.selection import nonzero_indices
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.data.strings import TEXT
from tcopt.support.errors import InputError
from tcopt.support.host.host_functions.matching import matcher_of


@handler("StringConcat")
def string_concat(ctx: NodeContext) -> SSAValue:
    """Elementwise concatenation of two string tensors."""
    x, y = ctx.input(0), ctx.input(1)
    shape = broadcast_shapes(ctx.shape(x), ctx.shape(y))
    return ctx.host("string_concat", [x, y], shape)


@handler("StringSplit")
def string_split(ctx: NodeContext) -> list[SSAValue]:
    """The parts of strings between delimiters, and their number for each string."""
    x = ctx.input(0)
    most = ctx.get_int("maxsplit", -1)
    settings = {"delimiter": ctx.get_string("delimiter", ""), "maxsplit": most}
    counts = ctx.host("string_split_counts", [x], ctx.shape(x), i64, **settings)
    width = 0
    if 0 not in ctx.shape(x):
        axes = list(range(ctx.rank(x)))
        longest = counts
        if axes:
            longest = ctx.emit(graph.ReduceOp(counts, kind="max", axes=axes))
        (width,) = ctx.measured(longest, "the number of parts")
    shape = (*ctx.shape(x), width)
    if 0 in shape:
        return [ctx.array(np.empty(shape, TEXT)), counts]
    return [ctx.host("string_split", [x], shape, **settings), counts]


@handler("RegexFullMatch")
def regex_full_match(ctx: NodeContext) -> SSAValue:
    """Whether each string matches a regular expression as a whole."""
    x, pattern = ctx.input(0), ctx.get_string("pattern")
    try:
        matcher_of(pattern)
    except InputError as error:
        ctx.malformed(error.message, error.hint)
    return ctx.host("regex_full_match", [x], ctx.shape(x), i1, pattern=pattern)


@handler("StringNormalizer")
def string_normalizer(ctx: NodeContext) -> SSAValue:
    """Strings converted to another case, without stop words."""
    x, action = ctx.input(0), ctx.get_string("case_change_action")
    shape = ctx.shape(x)
    ctx.check(
        len(shape) == 1 or (len(shape) == 2 and shape[0] == 1),
        f"{list(shape)} is not a list of words",
    )
    ctx.check(action in ("NONE", "LOWER", "UPPER"), f"case_change_action cannot be {action!r}")
    stops = ctx.get_strings("stopwords") or []
    change = {"LOWER": "lower", "UPPER": "upper"}.get(action)
    ctx.check(ctx.is_text(x), "the data should be strings")
    words = ctx.text(reshaped(ctx, x, (shape[-1],)))
    changed = words if change is None else ctx.host("string_case", [words], shape[-1:], case=change)
    if not stops:
        return reshaped(ctx, changed, shape)
    if ctx.get_bool("is_case_sensitive"):
        compared = words
    else:
        compared = ctx.host("string_case", [words], shape[-1:], case="lower")
        stops = [word.lower() for word in stops]
    return _without(ctx, changed, compared, stops, shape)


def _without(
    ctx: NodeContext, words: SSAValue, compared: SSAValue, stops: list[str], shape: tuple[int, ...]
) -> SSAValue:
    """Remove words whose `compared` is a stop word; return one empty word if none remains."""
    (length,), lead = ctx.shape(words), shape[:-1]
    nothing = ctx.array(np.full((*lead, 1), "", TEXT))
    if not length:
        return nothing
    place = positions(ctx, compared, np.array(stops, TEXT))
    behind = ctx.literal(len(stops), place)
    kept, count = nonzero_indices(ctx, ctx.emit(graph.CompareOp(place, behind, predicate="eq")))
    if ctx.known(count) is not None or not ctx.may_bound:
        (left,) = ctx.measured(count, "the number of words")
        if not left:
            return nothing
        kept = ctx.emit(graph.SliceOp(kept, [0], [left]))
        return reshaped(ctx, ctx.emit(graph.GatherOp(words, kept, axis=0)), (*lead, left))
    found = ctx.emit(graph.GatherOp(words, kept, axis=0))
    one = ctx.literal(1, count)
    is_empty = ctx.emit(graph.CompareOp(count, one, predicate="lt"))
    found = ctx.emit(graph.SelectOp(is_empty, ctx.literal(ctx.place_of(""), found), found))
    found = ctx.text(reshaped(ctx, found, (*lead, length)))
    return ctx.bounded(found, len(lead), ctx.emit(graph.MaxOp(count, one)))
