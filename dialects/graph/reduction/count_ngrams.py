"""Occurrences of n-grams in rows of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f32, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Int, integer
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    as_extent,
    element_type,
    shape_of,
    tensor,
)
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.support.arithmetic.sizes import maximum, minimum, upper_bound


@irdl_op_definition
class CountNgramsOp(OpaqueOp):
    """Count how often each n-gram of a trie occurs in each row of words.

        %y = graph.count_ngrams %rows, %children, %words, %columns
                 {width = 6, depth = 2, distances = 3} : tensor<4x6xf32>

    rows is [rows, length]; words are integers. Node 0 of the trie is the root. The children of node
    n are the nodes from `children[n, 0]` up to, but not including, `children[n, 1]`, in increasing
    order of their words; a binary search among them takes `children[n, 2]` steps. `words[n]` leads
    to node n; an n-gram that ends there is counted in column `columns[n]`, unless that is -1.

    The words of an n-gram are 1, 2, ..., `distances` positions apart, and each distance counts; a
    single word counts once. `depth` is the length of the longest n-gram.
    """

    name = "graph.count_ngrams"

    rows = operand_def(TensorType)
    children = operand_def(TensorType)
    words = operand_def(TensorType)
    columns = operand_def(TensorType)
    width = prop_def(Int)
    depth = prop_def(Int)
    distances = prop_def(Int)
    result = result_def(TensorType)

    def __init__(
        self,
        rows: SSAValue | Operation,
        children: SSAValue | Operation,
        words: SSAValue | Operation,
        columns: SSAValue | Operation,
        *,
        width: int,
        depth: int,
        distances: int,
    ):
        facts = {"width": width, "depth": depth, "distances": distances}
        properties = {name: integer(value) for name, value in facts.items()}
        super().__init__([rows, children, words, columns], properties)

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [rows, width], f32."""
        rows, nodes = shape_of(self.rows), shape_of(self.words)
        if element_type(self.rows) != i64 or element_type(self.words) != i64:
            raise VerifyException("words must be i64")
        if element_type(self.children) != i32 or element_type(self.columns) != i32:
            raise VerifyException("nodes and columns must be i32")
        if (
            len(rows) != 2
            or len(nodes) != 1
            or not nodes[0]
            or shape_of(self.children) != (*nodes, 3)
            or shape_of(self.columns) != nodes
        ):
            types = ", ".join(str(value.type) for value in self.operands)
            raise VerifyException(f"operands of {types} are not rows and a trie")
        for label, value in (("width", self.width), ("distances", self.distances)):
            if value.value.data < 1:
                raise VerifyException(f"{label} must be at least 1, got {value.value.data}")
        if self.depth.value.data < 0:
            raise VerifyException(f"depth must not be negative, got {self.depth.value.data}")
        return (tensor((rows[0], self.width.value.data), f32),)

    def _distances(self, length: int) -> int:
        """Return the number of distances at which an n-gram of two words fits into a row."""
        return as_extent(maximum(minimum(self.distances.value.data, length - 1), 0))

    def compute_all(
        self, rows: Array, children: Array, words: Array, columns: Array
    ) -> Sequence[Array]:
        """Evaluate with numpy: follow the trie from all positions of all rows at once, level by
        level."""
        count, length = rows.shape
        result = np.zeros((count, self.width.value.data), np.float32)
        for distance in range(1, max(self._distances(length), 1) + 1):
            row, place = (part.reshape(-1) for part in np.indices(rows.shape))
            node = np.zeros(row.shape, np.int64)
            for level in range(self.depth.value.data):
                node = _children(children, words, node, rows[row, place])
                there = node >= 0
                row, place, node = row[there], place[there], node[there]
                if level or distance == 1:
                    ends = columns[node] >= 0
                    np.add.at(result, (row[ends], columns[node[ends]]), 1)
                place = place + distance
                there = place < length
                row, place, node = row[there], place[there], node[there]
        return (result,)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a parallel loop over rows, following the trie from each word at each distance."""
        rows, children, words, columns, result = buffers
        (count, length), depth = rows.shape, self.depth.value.data
        with k.loop(count, parallel=True) as row:
            with k.loop(result.shape[1]) as column:
                result[row, column] = 0
            with k.loop(length if depth else 0) as start:
                first = _child(k, children, words, k.scalar(0, i32), rows[row, start])
                with k.when(first >= 0):
                    _count(k, columns, result, row, first)
                    if depth > 1 and upper_bound(length) > 1:
                        # The second word has to be in the row.
                        after = k.scalar(length - 1, INDEX) - start
                        with k.loop(after.minimum(self._distances(length))) as distance:
                            self._follow(k, buffers, row, start, distance, first)

    def _follow(
        self,
        k: KernelWriter,
        buffers: Sequence[Buffer],
        row: Scalar,
        start: Scalar,
        distance: Scalar,
        first: Scalar,
    ) -> None:
        """Follow the trie from the first word's node, with successive words `distance` apart."""
        rows, children, words, columns, result = buffers
        node, place = k.variable(i32, first), k.variable(INDEX, start)
        with k.loop(self.depth.value.data - 1):
            place.set(place.get() + distance + 1)
            inside = place.get() < rows.shape[1]
            with k.when(inside & (node.get() >= 0)):
                word = rows[row, place.get()]
                node.set(_child(k, children, words, node.get(), word))
                with k.when(node.get() >= 0):
                    _count(k, columns, result, row, node.get())


def _count(k: KernelWriter, columns: Buffer, result: Buffer, row: Scalar, node: Scalar) -> None:
    """Count the n-gram that ends at a node, if one does."""
    column = columns[node.cast(INDEX)]
    with k.when(column >= 0):
        place = column.cast(INDEX)
        result[row, place] = result[row, place] + 1


def _child(k: KernelWriter, children: Buffer, words: Buffer, node: Scalar, word: Scalar) -> Scalar:
    """Return the child of a node for a word, -1 if there is none."""
    parent = node.cast(INDEX)
    end = children[parent, 1]
    low, high = k.variable(i32, children[parent, 0]), k.variable(i32, end)
    with k.loop(children[parent, 2].cast(INDEX)):
        # The sum of two node numbers does not overflow, as there are fewer than 2^30 nodes.
        middle = (low.get() + high.get()).cast(INDEX).divided(2).cast(i32)
        before = (low.get() < high.get()) & (words[middle.cast(INDEX)] < word)
        low.set(k.select(before, middle + 1, low.get(), i32))
        high.set(k.select(before, high.get(), middle, i32))
    found = (low.get() < end) & words[low.get().cast(INDEX)].equals(word)
    return k.select(found, low.get(), -1, i32)


def _children(children: Array, words: Array, nodes: Array, wanted: Array) -> Array:
    """Evaluate `_child` for many nodes at once."""
    found = np.full(nodes.shape, -1, np.int64)
    for node in np.unique(nodes):
        first, end, _ = children[node]
        own = nodes == node
        place = first + np.searchsorted(words[first:end], wanted[own])
        equal = words[np.minimum(place, len(words) - 1)] == wanted[own]
        found[own] = np.where((place < end) & equal, place, -1)
    return found
