"""Operators on words: numbers, or strings by their places."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.shaping import reshaped

_Gram = tuple[int, ...]


@handler("TfIdfVectorizer")
def tf_idf_vectorizer(ctx: NodeContext) -> SSAValue:
    """How often each n-gram of a pool occurs in a row, at the columns that it is assigned."""
    x, mode = ctx.input(0), ctx.get_string("mode")
    ctx.check(mode in ("TF", "IDF", "TFIDF"), f"mode cannot be {mode!r}")
    ctx.check(ctx.rank(x) in (1, 2), "data should have one dimension or two")
    columns = ctx.get_ints("ngram_indexes") or []
    ctx.check(columns and min(columns) >= 0, "columns should be numbers from 0 on")
    width, (*beside, length) = max(columns) + 1, ctx.shape(x)
    rows = reshaped(ctx, x, (*(beside or [1]), length))
    total = ctx.builder.splat((ctx.shape(rows)[0], width), np.float32(0))
    least, most = ctx.get_int("min_gram_length"), ctx.get_int("max_gram_length")
    skips = ctx.get_int("max_skip_count")
    ctx.check(0 < least <= most and skips >= 0, f"no n-grams of {least} to {most} words")
    for size, grams in _pool(ctx, columns).items():
        if not least <= size <= most:
            continue
        # The words of an n-gram are as far from each other; one word has no distance.
        farthest = 1 if size == 1 else min(skips + 1, (length - 1) // (size - 1))
        for distance in range(1, farthest + 1):
            starts = length - (size - 1) * distance
            if starts > 0:
                found = _occurrences(ctx, rows, grams, width, distance, starts)
                total = ctx.emit(graph.AddOp(total, found))
    return reshaped(ctx, _weighted(ctx, total, mode, columns), (*beside, width))


def _pool(ctx: NodeContext, columns: list[int]) -> dict[int, list[tuple[_Gram, int]]]:
    """The n-grams of each size, with their columns."""
    pool, starts = ctx.get_ints("pool_int64s"), ctx.get_ints("ngram_counts") or []
    words = ctx.get_strings("pool_strings")
    ctx.check((pool is None) != (words is None), "there should be one pool")
    ctx.check((words is not None) == ctx.is_text(ctx.input(0)), "pool and data differ in type")
    if pool is None:
        pool = [ctx.place_of(word) for word in words or ()]
    found: dict[int, dict[_Gram, int]] = defaultdict(dict)
    number = 0
    for size, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        ctx.check(0 <= start <= end <= len(pool), f"n-grams from {start} to {end} are none")
        for place in range(start, end - size + 1, size):
            ctx.check(number < len(columns), f"there are columns for {len(columns)} n-grams only")
            found[size][tuple(pool[place : place + size])] = columns[number]
            number += 1
    return {size: list(grams.items()) for size, grams in found.items()}


def _occurrences(
    ctx: NodeContext,
    rows: SSAValue,
    grams: list[tuple[_Gram, int]],
    width: int,
    distance: int,
    starts: int,
) -> SSAValue:
    """How often n-grams occur in each row with their words so far apart, by column."""
    count = ctx.shape(rows)[0]
    matches: SSAValue | None = None
    for word in range(len(grams[0][0])):
        part = ctx.emit(graph.SliceOp(rows, [0, word * distance], (count, starts)))
        wanted = ctx.literal(np.array([gram[word] for gram, _ in grams]), rows)
        part = reshaped(ctx, part, (count, starts, 1))
        equal = ctx.emit(graph.CompareOp(part, wanted, predicate="eq"))
        matches = equal if matches is None else ctx.emit(graph.AndOp(matches, equal))
    assert matches is not None
    sums = ctx.emit(graph.ReduceOp(cast(ctx, matches, f32), kind="sum", axes=[1]))
    spread = np.zeros((len(grams), width), np.float32)
    spread[np.arange(len(grams)), [column for _, column in grams]] = 1
    sums = reshaped(ctx, sums, (count, len(grams)))
    return ctx.emit(graph.MatmulOp(sums, ctx.array(spread)))


def _weighted(ctx: NodeContext, counts: SSAValue, mode: str, columns: list[int]) -> SSAValue:
    """Counts, or whether there are any, times the weights of the n-grams if there are some."""
    if mode == "TF":
        return counts
    if mode == "IDF":
        zero = ctx.literal(0.0, counts)
        counts = cast(ctx, ctx.emit(graph.CompareOp(counts, zero, predicate="gt")), f32)
    weights = ctx.get_floats("weights")
    if not weights:
        return counts
    ctx.check(len(weights) == len(columns), f"{len(weights)} weights for {len(columns)} n-grams")
    by_column = np.zeros(ctx.shape(counts)[-1])
    by_column[columns] = weights
    return ctx.emit(graph.MulOp(counts, ctx.literal(by_column, counts)))
