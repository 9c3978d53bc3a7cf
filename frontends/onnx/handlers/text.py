"""Handler of TfIdfVectorizer, whose words are numbers or indices into the string table."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.shaping import reshaped


@dataclass
class _Node:
    """A node of the trie of n-grams, with the output column if an n-gram ends here."""

    children: dict[int, _Node] = field(default_factory=dict["int", "_Node"])
    column: int = -1

    def add(self, gram: list[int], column: int) -> None:
        """Add an n-gram below this node."""
        node = self
        for word in gram:
            node = node.children.setdefault(word, _Node())
        node.column = column


@handler("TfIdfVectorizer")
def tf_idf_vectorizer(ctx: NodeContext) -> SSAValue:
    """The number of occurrences of each n-gram of a pool in a row, at its output column."""
    x, mode = ctx.input(0), ctx.get_string("mode")
    ctx.check(mode in ("TF", "IDF", "TFIDF"), f"mode cannot be {mode!r}")
    ctx.check(ctx.rank(x) in (1, 2), "data should have one dimension or two")
    columns = ctx.get_ints("ngram_indexes") or []
    ctx.check(columns and min(columns) >= 0, "columns should be non-negative")
    width, (*beside, length) = max(columns) + 1, ctx.shape(x)
    limit = ctx.builder.limits.made_elements
    ctx.check(width <= limit, f"there are {width} columns, more than {limit}")
    rows = cast(ctx, reshaped(ctx, x, (*(beside or [1]), length)), i64)
    least, most = ctx.get_int("min_gram_length"), ctx.get_int("max_gram_length")
    skips = ctx.get_int("max_skip_count")
    ctx.check(0 < least <= most and skips >= 0, f"no n-grams of {least} to {most} words")
    root, depth = _trie(ctx, columns, least, most)
    # Distances beyond the row's length have no occurrences.
    distances = min(skips, length) + 1
    tables = [ctx.array(table) for table in _tables(root)]
    found = graph.CountNgramsOp(rows, *tables, width=width, depth=depth, distances=distances)
    return reshaped(ctx, _weighted(ctx, ctx.emit(found), mode, columns), (*beside, width))


def _trie(ctx: NodeContext, columns: list[int], least: int, most: int) -> tuple[_Node, int]:
    """Return the n-grams of `least` to `most` words as a trie, and its depth."""
    pool, starts = ctx.get_ints("pool_int64s"), ctx.get_ints("ngram_counts") or []
    texts = ctx.get_strings("pool_strings")
    ctx.check((pool is None) != (texts is None), "there should be one pool")
    ctx.check((texts is not None) == ctx.is_text(ctx.input(0)), "pool and data differ in type")
    words = [ctx.place_of(text) for text in texts or ()] if pool is None else pool
    root, depth, number = _Node(), 0, 0
    for size, (start, end) in enumerate(zip(starts, [*starts[1:], len(words)], strict=True), 1):
        ctx.check(
            0 <= start <= end <= len(words),
            f"n-grams from {start} to {end} do not exist",
        )
        for place in range(start, end - size + 1, size):
            ctx.check(number < len(columns), f"there are only columns for {len(columns)} n-grams")
            if least <= size <= most:
                root.add(words[place : place + size], columns[number])
                depth = size
            number += 1
    return root, depth


def _tables(root: _Node) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the trie as the tables that `graph.count_ngrams` reads: children, words, columns."""
    children: list[tuple[int, int, int]] = []
    words, columns = [0], [-1]
    pending = deque([root])
    while pending:
        node = pending.popleft()
        first, count = len(words), len(node.children)
        children.append((first, first + count, count.bit_length()))
        for word, child in sorted(node.children.items(), key=itemgetter(0)):
            words.append(word)
            columns.append(child.column)
            pending.append(child)
    return np.array(children, np.int32), np.array(words, np.int64), np.array(columns, np.int32)


def _weighted(ctx: NodeContext, counts: SSAValue, mode: str, columns: list[int]) -> SSAValue:
    """Convert counts by the mode, and multiply them by the weights of n-grams if there are any."""
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
