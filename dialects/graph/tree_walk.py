"""The kernel of `graph.tree_ensemble`: rows go down trees, then weights of leaves are combined."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce

from xdsl.dialects.builtin import IntegerType, Signedness, f32, i1, i32
from xdsl.ir import Attribute

from tcopt.dialects.graph.attributes import TreeAggregate
from tcopt.dialects.graph.tree_nodes import FEATURE_BITS, Relation, words_of
from tcopt.dialects.graph.types import bits_of
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter, Scalar, Variable

_TOGETHER = 8
"""Paths, each of one row down one tree, that are followed together."""

_STEPS = 3
"""Steps between two checks whether paths have reached leaves."""

_PATHS = 256
"""Paths that share a list of active ones, at most: threads share out these lists."""

_SKIPPED = 16
"""Checks that are skipped at once after the last step."""

_FEW_ROWS = 256
"""Up to this number of rows, threads share out the trees; beyond, the rows."""

_CHUNK = 32
"""Rows that go down a tree before the next tree is loaded."""


_LESS_EQUAL = Relation.LESS | Relation.EQUAL
_GREATER_EQUAL = Relation.GREATER | Relation.EQUAL
_WORD = IntegerType(32, Signedness.UNSIGNED)
_DOUBLE_WORD = IntegerType(64, Signedness.UNSIGNED)


class TreeWriter:
    """Writes the loops of an ensemble.

    Weights are added in the order of the trees, whichever thread found the leaves, so results do
    not depend on the number of threads.

    Args:
        buffers: of the op's operands and result.
        common, varying: relations in which tests of all, and of some, inner nodes hold.
    """

    def __init__(
        self,
        k: KernelWriter,
        buffers: Sequence[Buffer],
        aggregate: TreeAggregate,
        depth: int,
        common: Relation,
        varying: Relation,
    ):
        self._k = k
        self._x, self._nodes, self._roots = buffers[:3]
        self._targets, self._weights, self._result = buffers[3:]
        self._aggregate = aggregate
        self._depth, self._common, self._varying = depth, common, varying
        self._rows, self._trees = self._x.shape[0], self._roots.shape[0]
        self._words = words_of(bits_of(self._x.dtype))
        self._last = self._nodes.shape[0] - self._words

    def write(self) -> None:
        """Write loops over all rows and trees."""
        k = self._k
        chunks = self._rows // _CHUNK if self._rows > _FEW_ROWS else 0
        if chunks:
            with k.loop(chunks, parallel=True) as chunk:
                leaves = k.workspace((self._trees * _CHUNK,), _WORD)
                self._find(leaves, chunk * _CHUNK, _CHUNK, parallel=False)
                self._combine(leaves, chunk * _CHUNK, _CHUNK, parallel=False)
        if rest := self._rows - chunks * _CHUNK:
            leaves = k.workspace((self._trees * rest,), _WORD)
            first = k.scalar(chunks * _CHUNK, INDEX)
            self._find(leaves, first, rest, parallel=True)
            self._combine(leaves, first, rest, parallel=True)

    def _find(self, leaves: Buffer, first: Scalar, rows: int, *, parallel: bool) -> None:
        """Find the leaves of some rows, from `first` on, in all trees.

        A path has the number tree * rows + row; `leaves` has the node that it has reached.
        """
        k = self._k
        fewest = -(-self._trees // max(_PATHS // rows, 1))
        even = (n for n in range(fewest, 2 * fewest + 1) if self._trees % n == 0)
        blocks = next(even, fewest)
        trees, rest = divmod(self._trees, blocks)
        with k.loop(blocks, parallel=parallel) as block:
            self._find_block(leaves, first, block * trees, trees, rows)
        if rest:
            # A loop of its own is one launch on a device.
            with k.loop(1):
                self._find_block(leaves, first, k.scalar(blocks * trees, INDEX), rest, rows)

    def _find_block(
        self, leaves: Buffer, first: Scalar, tree: Scalar, trees: int, rows: int
    ) -> None:
        """Find leaves in some trees, from `tree` on.

        Paths take a few steps at a time, several together. Those that have reached a leaf leave the
        list of active ones, so that short paths do not wait for long ones.
        """
        k, paths = self._k, trees * rows
        active = k.workspace((paths + _TOGETHER,), _WORD)
        with k.loop(trees) as each, k.loop(rows) as row:
            path = (tree + each) * rows + row
            leaves[path] = self._roots[tree + each].cast(_WORD)
            active[each * rows + row] = path.cast(_WORD)
        with k.loop(_TOGETHER) as lane:
            # The last group may be filled up with any path.
            active[lane + paths] = (tree * rows).cast(_WORD)
        count = k.variable(INDEX, paths)
        checks = -(-self._depth // _STEPS)
        with ExitStack() as stack:
            # Most paths end long before the deepest one: what is left is skipped quickly.
            for extent in [checks] if checks <= _SKIPPED else [-(-checks // _SKIPPED), _SKIPPED]:
                stack.enter_context(k.loop(extent))
                stack.enter_context(k.when(count.get() > 0))
            kept = k.variable(INDEX, 0)
            with k.loop((count.get() + (_TOGETHER - 1)).divided(_TOGETHER)) as group:
                self._advance(leaves, active, first, rows, group, count, kept)
            count.set(kept.get())

    def _advance(
        self,
        leaves: Buffer,
        active: Buffer,
        first: Scalar,
        rows: int,
        group: Scalar,
        count: Variable,
        kept: Variable,
    ) -> None:
        """Take a few steps on a group of active paths, and keep those that go on."""
        k = self._k
        places = [group * _TOGETHER + lane for lane in range(_TOGETHER)]
        paths = [active[place].minimum(leaves.shape[0] - 1) for place in places]
        where = [path.cast(INDEX) for path in paths]
        at = [first + path.modulo(rows).cast(INDEX) if rows > 1 else first for path in paths]
        nodes = [leaves[each] for each in where]
        for _ in range(_STEPS):
            nodes = [self._step(row, node) for row, node in zip(at, nodes, strict=True)]
        for place, path, index, node in zip(places, paths, where, nodes, strict=True):
            leaves[index] = node
            active[kept.get()] = path
            goes_on = (node < self._last) & (place < count.get())
            kept.set(kept.get() + k.select(goes_on, 1, 0, INDEX))

    def _step(self, row: Scalar, node: Scalar) -> Scalar:
        """The node after one; a leaf stays."""
        place = node.minimum(self._last).cast(INDEX)
        head = self._nodes[place.shifted(self._words - 3)]
        feature = head.field(0, FEATURE_BITS) if self._varying else head
        value = self._x[row, feature.minimum(self._x.shape[1] - 1).cast(INDEX)]
        holds = self._holds(value, self._threshold(place), head)
        fails = place.shifted(self._words - 2)
        return node + self._nodes[fails + self._k.select(holds, 1, 0, INDEX)]

    def _threshold(self, place: Scalar) -> Scalar:
        """The threshold in a record."""
        dtype, low = self._x.dtype, self._nodes[place]
        if dtype == f32:
            return low.bitcast(f32)
        high = self._nodes[place.shifted(1)].cast(_DOUBLE_WORD) << 32
        return (low.cast(_DOUBLE_WORD) | high).bitcast(dtype)

    def _holds(self, value: Scalar, threshold: Scalar, head: Scalar) -> Scalar:
        """Whether a node's test holds."""
        tests = {
            Relation.LESS: lambda: value < threshold,
            Relation.EQUAL: lambda: value.equals(threshold),
            Relation.GREATER: lambda: value > threshold,
            Relation.UNORDERED: lambda: value.differs(value),
        }

        def any_of(relations: Relation) -> Scalar:
            if relations in (_LESS_EQUAL, _GREATER_EQUAL):
                return value <= threshold if relations == _LESS_EQUAL else value >= threshold
            found = [test() for each, test in tests.items() if each in relations]
            return reduce(Scalar.__or__, found, self._k.scalar(False, i1))

        if Relation.UNORDERED in self._common:
            # No threshold is nan, so only a nan fails all comparisons.
            holds = ~any_of(~self._common)
        else:
            holds = any_of(self._common)
        for each, test in tests.items():
            if each in self._varying:
                holds = holds | ((head & (each.value << FEATURE_BITS)).differs(0) & test())
        return holds

    def _combine(self, leaves: Buffer, first: Scalar, count: int, *, parallel: bool) -> None:
        """Combine weights of the leaves that were found for some rows, from `first` on."""
        groups, rest = divmod(count, _TOGETHER)
        with self._k.loop(groups, parallel=parallel) as group:
            rows = [group * _TOGETHER + lane for lane in range(_TOGETHER)]
            self._combine_rows(leaves, first, count, rows)
        if rest:
            with self._k.loop(1):
                start = self._k.scalar(groups * _TOGETHER, INDEX)
                rows = [start + lane for lane in range(rest)]
                self._combine_rows(leaves, first, count, rows)

    def _combine_rows(
        self, leaves: Buffer, first: Scalar, all_rows: int, rows: Sequence[Scalar]
    ) -> None:
        k, count = self._k, self._result.shape[1]
        sums = self._aggregate is TreeAggregate.SUM
        totals = [self._for_targets(self._result.dtype) for _ in rows]
        # Whether min and max have seen a value of a target.
        seen = [None if sums else self._for_targets(i32) for _ in rows]
        with k.loop(count) as target:
            for total, mark in zip(totals, seen, strict=True):
                total[target] = 0
                if mark is not None:
                    mark[target] = 0
        with k.loop(self._trees) as tree:
            for row, total, mark in zip(rows, totals, seen, strict=True):
                leaf = leaves[tree * all_rows + row] - self._last
                leaf = leaf.minimum(self._weights.shape[0] - 1).cast(INDEX)
                with k.loop(self._weights.shape[1]) as entry:
                    target = k.scalar(0, INDEX)
                    if count > 1:
                        target = self._limited(self._targets[leaf, entry], total)
                    weight = self._weights[leaf, entry]
                    total[target] = self._combined(total[target], weight, mark, target)
        with k.loop(count) as target:
            for row, total in zip(rows, totals, strict=True):
                self._result[first + row, target] = total[target]

    def _for_targets(self, dtype: Attribute) -> Buffer:
        """A buffer with an element for each target."""
        count = self._result.shape[1]
        if count == 1:
            return self._k.registers(count, dtype)
        return self._k.workspace((count,), dtype)

    def _combined(self, old: Scalar, new: Scalar, seen: Buffer | None, target: Scalar) -> Scalar:
        """A target's value after one more weight; `seen` records whether it had any before."""
        if seen is None:
            return old + new
        better = new < old if self._aggregate is TreeAggregate.MIN else new > old
        is_first = seen[target].equals(0)
        seen[target] = 1
        return self._k.select(is_first | better, new, old, new.dtype)

    def _limited(self, number: Scalar, of: Buffer) -> Scalar:
        """An index read from memory, moved into the first dimension of a buffer."""
        return number.maximum(0).minimum(of.shape[0] - 1).cast(INDEX)
