"""Kernel of `graph.tree_ensemble`: rows are followed down trees, then leaf weights are combined."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects.builtin import IntegerType, Signedness, f32, i1, i32
from xdsl.ir import Attribute

from tcopt.dialects.graph.core.attributes import TreeAggregate
from tcopt.dialects.graph.core.types import bits_of
from tcopt.dialects.graph.trees.tree_nodes import FEATURE_BITS, NodeRelation, words_of
from tcopt.dialects.loop.writer import Buffer, KernelWriter, Variable
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.support.arithmetic.sizes import Size

_TOGETHER = 8
"""Number of paths, each of one row down one tree, that are followed together."""

_STEPS = 3
"""Number of steps between two checks whether paths have reached leaves."""

_PATHS = 248
"""Upper bound of paths that share a list of active ones; threads divide these lists among them.
With the padding of the last group, they are a power of two."""

_SKIPPED = 16
"""Number of checks in an outer iteration; they are skipped together once no path is active."""

_FEW_ROWS = 256
"""Maximum number of rows for which threads divide the trees; for more rows, they divide the
rows."""

_CHUNK = 32
"""Number of rows that are followed down a tree before the next tree is loaded, if all trees are
small."""

_FAR = 1 << 22
"""Size of all trees in bytes above which loading them for each chunk of rows is too slow. Chunks of
rows are then larger, and threads divide the trees."""

_REST_GROUPS = 4
"""Cost of loading the code of a separate last block, in groups of paths."""

_LONG_LIST = 48
"""Minimum number of trees for which a list contains the paths of one row only."""

_NEAR = 1 << 15
"""Size in bytes of the trees that stay in L1 from one row to the next."""

_LESS_EQUAL = NodeRelation.LESS | NodeRelation.EQUAL
_GREATER_EQUAL = NodeRelation.GREATER | NodeRelation.EQUAL
_WORD = IntegerType(32, Signedness.UNSIGNED)
_DOUBLE_WORD = IntegerType(64, Signedness.UNSIGNED)


@dataclass(frozen=True)
class _Leaves:
    """The node that each path has reached, finally a leaf.

    The paths are those of some rows down all trees, ordered by tree and then row, or the reverse.

    Attributes:
        first: index of the first row.
        rows: number of rows.
        by_row: whether all paths of a row are adjacent.
    """

    nodes: Buffer
    first: Scalar
    rows: int
    trees: int
    by_row: bool

    def at(self, tree: Scalar, row: Scalar) -> Scalar:
        """Return the index of a path; `row` counts from `first`."""
        return row * self.trees + tree if self.by_row else tree * self.rows + row


@dataclass(frozen=True)
class _Paths:
    """Paths of one row or of all rows down some trees, numbered with rows as the inner dimension.

    Attributes:
        tree: the first tree.
        row: the row, relative to the first of `leaves`; None for all of them.
    """

    leaves: _Leaves
    tree: Scalar
    trees: int
    row: Scalar | None

    @property
    def count(self) -> int:
        """Number of paths."""
        return self.trees * (self.leaves.rows if self.row is None else 1)

    def tree_of(self, path: Scalar) -> Scalar:
        """Return the tree of a path."""
        return self.tree + (path.divided(self.leaves.rows) if self.row is None else path)

    def row_of(self, path: Scalar) -> Scalar:
        """Return the row of a path in the data."""
        if self.row is not None:
            return self.leaves.first + self.row
        return self.leaves.first + path.modulo(self.leaves.rows).cast(INDEX)

    def at(self, path: Scalar) -> Scalar:
        """Return the index of a path among all leaves."""
        first = self.tree * self.leaves.rows
        if self.row is not None:
            first = self.leaves.at(self.tree, self.row)
        return first + path.cast(INDEX)


class TreeWriter:
    """Writer of the loops of an ensemble.

    Weights are added in the order of the trees, regardless of the thread that found the leaves, so
    results do not depend on the number of threads.

    Args:
        buffers: buffers of the op's operands and result.
        common, varying: relations in which tests of all, and of some, inner nodes hold.
    """

    def __init__(
        self,
        k: KernelWriter,
        buffers: Sequence[Buffer],
        aggregate: TreeAggregate,
        depth: int,
        common: NodeRelation,
        varying: NodeRelation,
    ):
        self._k = k
        self._x, self._nodes, self._roots = buffers[:3]
        self._targets, self._weights, self._result = buffers[3:]
        self._aggregate = aggregate
        self._depth, self._common, self._varying = depth, common, varying
        self._rows, self._trees = self._x.shape[0], self._roots.shape[0]
        self._words = words_of(bits_of(self._x.dtype))
        self._last = self._nodes.shape[0] - self._words
        self._size = self._nodes.shape[0] * _WORD.bitwidth // 8

    def write(self) -> None:
        """Write loops over all rows and trees."""
        k = self._k
        far = self._size > _FAR
        if isinstance(self._rows, Size):
            self._write_sized([_FEW_ROWS, _CHUNK, 1] if far else [_CHUNK, 1])
            return
        size = _FEW_ROWS if far else _CHUNK
        chunks = self._rows // size if self._rows > _FEW_ROWS else 0
        if chunks:
            with k.loop(chunks, parallel=not far) as chunk:
                self._score(chunk * size, size, parallel=far)
        if rest := self._rows - chunks * size:
            self._score(k.scalar(chunks * size, INDEX), rest, parallel=True)

    def _write_sized(self, sizes: Sequence[int]) -> None:
        """Write a loop over chunks of rows for each size of chunks, the largest first."""
        k, first, rest = self._k, 0, self._rows
        for size in sizes:
            count, rest = divmod(rest, size)
            with k.loop(count, parallel=size < _FEW_ROWS) as chunk:
                self._score(chunk * size + first, size, parallel=size == _FEW_ROWS)
            first += count * size

    def _score(self, first: Scalar, rows: int, *, parallel: bool) -> None:
        """Find the leaves of some rows, starting at `first`, and combine their weights."""
        k = self._k
        # If all paths of a list have the same row, addresses of its elements do not depend on the
        # path. That pays off if lists are long and the trees stay in cache from row to row.
        near = min(self._trees, _NEAR * self._trees // self._size)
        by_row = rows == 1 or near >= _LONG_LIST
        most = min(near, _PATHS) if by_row and rows > 1 else _PATHS // (1 if by_row else rows)
        fewest = -(-self._trees // max(most, 1))
        blocks = min(range(fewest, min(4 * fewest, self._trees) + 1), key=self._groups_in)
        trees, rest = divmod(self._trees, blocks)
        nodes = k.workspace((self._trees * rows + _PATHS + _TOGETHER,), _WORD)
        leaves = _Leaves(nodes, first, rows, self._trees, by_row)
        with k.loop(blocks, parallel=parallel) as block:
            self._find(leaves, block * trees, trees)
        if rest:
            # On a device, a separate loop is one launch.
            with k.loop(1):
                self._find(leaves, k.scalar(blocks * trees, INDEX), rest)
        self._combine(leaves, parallel=parallel)

    def _groups_in(self, blocks: int) -> int:
        """Return the cost of `blocks` equal blocks of trees and one for the rest, in groups of
        paths of one row. The rest has code of its own, which is part of the cost."""
        trees, rest = divmod(self._trees, blocks)
        last = _REST_GROUPS + -(-rest // _TOGETHER) if rest else 0
        return blocks * -(-trees // _TOGETHER) + last

    def _find(self, leaves: _Leaves, tree: Scalar, trees: int) -> None:
        """Find leaves in some trees, starting at `tree`."""
        if leaves.by_row:
            with self._k.loop(leaves.rows) as row:
                self._follow(_Paths(leaves, tree, trees, row))
        else:
            self._follow(_Paths(leaves, tree, trees, None))

    def _follow(self, paths: _Paths) -> None:
        """Follow paths to leaves, a few steps of several paths at a time.

        Paths that have reached a leaf are removed from the list of active ones, so that short paths
        do not wait for long ones.
        """
        k, count = self._k, paths.count
        # With a power of two, one instruction limits an index to the buffer.
        size = 1 << (count + _TOGETHER - 2).bit_length()
        size = max(size, _TOGETHER)
        active = k.workspace((size,), _WORD)
        kept = k.variable(INDEX, 0)
        with k.loop(-(-count // _TOGETHER)) as group:
            lanes = [group * _TOGETHER + lane for lane in range(_TOGETHER)]
            # Lanes after the last path repeat it and do not continue.
            partial = count % _TOGETHER > 0
            own = [lane.minimum(count - 1) if partial else lane for lane in lanes]
            goes_on = [lane < count if partial else None for lane in lanes]
            nodes = [self._roots[paths.tree_of(each)].cast(_WORD) for each in own]
            words = [each.cast(_WORD) for each in own]
            self._advance(paths, words, nodes, goes_on, active, kept)
        checks = -(-self._depth // _STEPS) - 1
        if checks == 0:
            return
        left = k.variable(INDEX, kept.get())
        with k.loop(_TOGETHER - 1) as lane:
            # Any path may pad the last group.
            active[(left.get() + lane) & (size - 1)] = 0
        with ExitStack() as stack:
            # Most paths end long before the deepest one, so remaining checks are skipped in large
            # steps.
            for extent in [checks] if checks <= _SKIPPED else [-(-checks // _SKIPPED), _SKIPPED]:
                stack.enter_context(k.loop(extent))
                stack.enter_context(k.when(left.get() > 0))
            kept.set(0)
            with k.loop((left.get() + (_TOGETHER - 1)).divided(_TOGETHER)) as group:
                start = (group & (size // _TOGETHER - 1)) * _TOGETHER
                lanes = [start + lane for lane in range(_TOGETHER)]
                words = [active[lane] & (size - 1) for lane in lanes]
                nodes = [paths.leaves.nodes[paths.at(word)] for word in words]
                goes_on = [lane < left.get() for lane in lanes]
                self._advance(paths, words, nodes, goes_on, active, kept)
            left.set(kept.get())

    def _advance(
        self,
        paths: _Paths,
        words: Sequence[Scalar],
        nodes: Sequence[Scalar],
        goes_on: Sequence[Scalar | None],
        active: Buffer,
        kept: Variable,
    ) -> None:
        """Take a few steps on a group of paths, and list those that continue.

        Args:
            words: numbers of the paths in `paths`.
            nodes: the nodes that they have reached.
            goes_on: whether each path may continue; None if it may.
        """
        k, size = self._k, active.shape[0]
        rows = [paths.row_of(word) for word in words]
        for _ in range(_STEPS):
            nodes = [self._step(row, node) for row, node in zip(rows, nodes, strict=True)]
        for word, node, may in zip(words, nodes, goes_on, strict=True):
            paths.leaves.nodes[paths.at(word)] = node
            active[kept.get() & (size - 1)] = word
            more = node < self._last
            more = more if may is None else more & may
            kept.set(kept.get() + k.select(more, 1, 0, INDEX))

    def _step(self, row: Scalar, node: Scalar) -> Scalar:
        """Return the successor of a node; a leaf is its own successor."""
        place = node.minimum(self._last).cast(INDEX)
        head = self._nodes[place.shifted(self._words - 3)]
        feature = head.field(0, FEATURE_BITS) if self._varying else head
        value = self._x[row, feature.minimum(self._x.shape[1] - 1).cast(INDEX)]
        holds = self._holds(value, self._threshold(place), head)
        fails = place.shifted(self._words - 2)
        return node + self._nodes[fails + self._k.select(holds, 1, 0, INDEX)]

    def _threshold(self, place: Scalar) -> Scalar:
        """Return the threshold in a record."""
        dtype, low = self._x.dtype, self._nodes[place]
        if dtype == f32:
            return low.bitcast(f32)
        high = self._nodes[place.shifted(1)].cast(_DOUBLE_WORD) << 32
        return (low.cast(_DOUBLE_WORD) | high).bitcast(dtype)

    def _holds(self, value: Scalar, threshold: Scalar, head: Scalar) -> Scalar:
        """Return whether a node's test holds."""
        tests = {
            NodeRelation.LESS: lambda: value < threshold,
            NodeRelation.EQUAL: lambda: value.equals(threshold),
            NodeRelation.GREATER: lambda: value > threshold,
            NodeRelation.UNORDERED: lambda: value.differs(value),
        }

        def any_of(relations: NodeRelation) -> Scalar:
            if relations in (_LESS_EQUAL, _GREATER_EQUAL):
                return value <= threshold if relations == _LESS_EQUAL else value >= threshold
            found = [test() for each, test in tests.items() if each in relations]
            return reduce(Scalar.__or__, found, self._k.scalar(False, i1))

        if NodeRelation.UNORDERED in self._common:
            # No threshold is nan, so only a nan fails all comparisons.
            holds = ~any_of(~self._common)
        else:
            holds = any_of(self._common)
        for each, test in tests.items():
            if each in self._varying:
                holds = holds | ((head & (each.value << FEATURE_BITS)).differs(0) & test())
        return holds

    def _combine(self, leaves: _Leaves, *, parallel: bool) -> None:
        """Combine the weights of the leaves that were found for some rows."""
        groups, rest = divmod(leaves.rows, _TOGETHER)
        with self._k.loop(groups, parallel=parallel) as group:
            rows = [group * _TOGETHER + lane for lane in range(_TOGETHER)]
            self._combine_rows(leaves, rows)
        if rest:
            with self._k.loop(1):
                start = self._k.scalar(groups * _TOGETHER, INDEX)
                rows = [start + lane for lane in range(rest)]
                self._combine_rows(leaves, rows)

    def _combine_rows(self, leaves: _Leaves, rows: Sequence[Scalar]) -> None:
        k, count = self._k, self._result.shape[1]
        sums = self._aggregate is TreeAggregate.SUM
        totals = [self._for_targets(self._result.dtype) for _ in rows]
        # For min and max: whether a target has had a value.
        seen = [None if sums else self._for_targets(i32) for _ in rows]
        with k.loop(count) as target:
            for total, mark in zip(totals, seen, strict=True):
                total[target] = 0
                if mark is not None:
                    mark[target] = 0
        with k.loop(self._trees) as tree:
            for row, total, mark in zip(rows, totals, seen, strict=True):
                leaf = leaves.nodes[leaves.at(tree, row)] - self._last
                leaf = leaf.minimum(self._weights.shape[0] - 1).cast(INDEX)
                with k.loop(self._weights.shape[1]) as entry:
                    target = k.scalar(0, INDEX)
                    if count > 1:
                        target = self._limited(self._targets[leaf, entry], total)
                    weight = self._weights[leaf, entry]
                    total[target] = self._combined(total[target], weight, mark, target)
        with k.loop(count) as target:
            for row, total in zip(rows, totals, strict=True):
                self._result[leaves.first + row, target] = total[target]

    def _for_targets(self, dtype: Attribute) -> Buffer:
        """Return a buffer with one element per target."""
        count = self._result.shape[1]
        if count == 1:
            return self._k.registers(count, dtype)
        return self._k.workspace((count,), dtype)

    def _combined(self, old: Scalar, new: Scalar, seen: Buffer | None, target: Scalar) -> Scalar:
        """Return a target's value including one more weight; `seen` records whether it had one
        before."""
        if seen is None:
            return old + new
        better = new < old if self._aggregate is TreeAggregate.MIN else new > old
        is_first = seen[target].equals(0)
        seen[target] = 1
        return self._k.select(is_first | better, new, old, new.dtype)

    def _limited(self, number: Scalar, of: Buffer) -> Scalar:
        """Clamp an index that was read from memory to the first dimension of a buffer."""
        return number.maximum(0).minimum(of.shape[0] - 1).cast(INDEX)
