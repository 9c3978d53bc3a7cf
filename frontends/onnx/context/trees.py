"""Decision trees as arrays, independent of the ONNX operator that defines them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.graph.trees.tree_nodes import (
    NodeFields,
    NodeRelation,
    addresses_of,
    pack_nodes,
    words_of,
)

Numbers = NDArray[np.int64]
Fail = Callable[[str], NoReturn]


@dataclass
class Trees:
    """Inner nodes and leaves of all trees.

    Attributes:
        features, thresholds, tests: for each inner node the column that it compares, the value it
            is compared with, and the relations (`dialects.graph.trees.tree_nodes.NodeRelation`) in
            which its test holds.
        holds, fails: next node if the test holds or fails; -1 - l is leaf l.
        leaves: number of leaves.
        leaf, targets, weights: for each entry its leaf, the target, and the weight added to the
            target.
        roots: root node of each tree.
    """

    features: Numbers
    thresholds: NDArray[np.float64]
    tests: Numbers
    holds: Numbers
    fails: Numbers
    leaves: int
    leaf: Numbers
    targets: Numbers
    weights: NDArray[np.float64]
    roots: Numbers

    @property
    def inner(self) -> int:
        """Number of inner nodes."""
        return len(self.features)

    def depth(self, fail: Fail) -> int:
        """Return the maximum number of inner nodes on a path from a root.

        Args:
            fail: reports that nodes do not form trees.
        """
        below = np.concatenate([self.holds, self.fails])
        for nodes in (below, self.roots):
            self._check_exist(nodes, fail)
        if self._has_orphans(below):
            fail("a tree has a cycle, or nodes that no root reaches")
        reached = np.concatenate([below, self.roots])
        waiting = np.bincount(reached[reached >= 0], minlength=self.inner)
        has_shared_nodes = bool((waiting > 1).any())
        depth, found, level = 0, 0, self.roots
        while level.size:
            level = level[level >= 0]
            np.subtract.at(waiting, level, 1)
            # The level of a node follows that of its last parent.
            level = level[waiting[level] == 0]
            if has_shared_nodes:
                level = np.unique(level)
            found += len(level)
            depth += bool(level.size)
            level = np.concatenate([self.holds[level], self.fails[level]])
        if found < self.inner:
            fail("a tree has a cycle")
        return depth

    def _check_exist(self, ways: Numbers, fail: Fail) -> None:
        outside = ways[(ways >= self.inner) | (ways < -self.leaves)]
        if outside.size:
            place = int(outside[0])
            fail(f"there is no {'node' if place >= 0 else 'leaf'} {max(place, -1 - place)}")

    def _has_orphans(self, below: Numbers) -> bool:
        """Whether a node or leaf has no parent; without cycles, roots reach all others."""
        reached = np.zeros(self.inner + self.leaves, np.bool_)
        reached[below + self.leaves] = True
        reached[self.roots + self.leaves] = True
        return not reached.all()

    def simplify_nan_thresholds(self) -> None:
        """Rewrite tests against NaN, so that thresholds need no run-time check for NaN."""
        nan = np.isnan(self.thresholds)
        differs = (
            nan
            & ((self.tests & NodeRelation.LESS) != 0)
            & ((self.tests & NodeRelation.GREATER) != 0)
        )
        tracks = nan & ~differs & ((self.tests & NodeRelation.UNORDERED) != 0)
        self.thresholds = np.where(differs | tracks, 0, self.thresholds)
        self.tests = np.where(tracks, NodeRelation.UNORDERED, self.tests)
        self.tests = np.where(differs, ~NodeRelation(0), self.tests)

    def relations(self) -> tuple[NodeRelation, NodeRelation]:
        """Return the relations in which all tests hold, and those in which only some do."""
        if not self.inner:
            return NodeRelation(0), NodeRelation(0)
        every, some = (int(f.reduce(self.tests)) for f in (np.bitwise_and, np.bitwise_or))
        return NodeRelation(every), NodeRelation(some & ~every)

    def records(self, dtype: np.dtype[Any]) -> tuple[NDArray[np.uint32], Numbers]:
        """Return inner nodes, packed as in `dialects.graph.trees.tree_nodes`, and roots."""
        _, varying = self.relations()
        children = np.stack([self.fails, self.holds], axis=1)
        thresholds = self.thresholds.astype(dtype)
        fields = NodeFields(thresholds, self.tests & varying, self.features, children)
        words = words_of(dtype.itemsize * 8)
        return pack_nodes(fields), addresses_of(self.roots, self.inner, words)

    def entries(self) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
        """Return the number of entries per leaf, and targets and weights as [leaves, entries].

        Missing entries of a leaf add 0 to the target of its first entry.
        """
        counts = np.bincount(self.leaf, minlength=max(self.leaves, 1))
        order = np.argsort(self.leaf, kind="stable")
        own = self.leaf[order]
        place = np.arange(len(own)) - (np.cumsum(counts) - counts)[own]
        shape = len(counts), max(int(counts.max(initial=0)), 1)
        targets, weights = np.zeros(shape, np.int64), np.zeros(shape)
        first = place == 0
        targets[own[first]] = self.targets[order][first, None]
        targets[own, place], weights[own, place] = self.targets[order], self.weights[order]
        return counts, targets, weights


_SPARSENESS = 4
"""Maximum number of possible keys per key in use for which a table is indexed, not searched."""


class NodeNames:
    """Node numbers by name, which is a pair of tree and number within the tree.

    Args:
        owners, numbers: tree and number of each node.
    """

    def __init__(self, owners: Numbers, numbers: Numbers):
        self._owners, self._numbers = _Ranks(owners), _Ranks(numbers)
        keys, _ = self._key(owners, numbers)
        self._keys = _Ranks(keys)
        self._node = np.zeros(self._keys.count, np.int64)
        self._node[self._keys.find(keys)[0]] = np.arange(len(owners))
        self.are_unique = self._keys.count == len(owners)

    def find(self, owners: Numbers, numbers: Numbers) -> Numbers:
        """Return the node of each name; -1 if there is none."""
        if not self._node.size:
            return np.full(owners.shape, -1, np.int64)
        keys, known = self._key(owners, numbers)
        rank, is_key = self._keys.find(keys)
        return np.where(known & is_key, self._node[rank], -1)

    def _key(self, owners: Numbers, numbers: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return a key for each name, and whether both parts occur in names."""
        owner, is_owner = self._owners.find(owners)
        number, is_number = self._numbers.find(numbers)
        return owner * self._numbers.count + number, is_owner & is_number


class _Ranks:
    """Ranks of values among the distinct values, in ascending order.

    Attributes:
        count: number of distinct values.
    """

    def __init__(self, values: Numbers):
        self._table: Numbers | None = None
        self._low = int(values.min(initial=0))
        extent = int(values.max(initial=0)) - self._low + 1
        if extent <= _SPARSENESS * len(values):
            used = np.zeros(extent, np.bool_)
            used[values - self._low] = True
            self._table = np.where(used, np.cumsum(used) - 1, -1)
            self.count = int(np.count_nonzero(used))
        else:
            self._distinct = np.unique(values)
            self.count = len(self._distinct)

    def find(self, values: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return the rank of each value, and whether it occurs; other ranks are arbitrary."""
        if not self.count:
            return np.zeros(values.shape, np.int64), np.zeros(values.shape, np.bool_)
        if self._table is not None:
            inside = (values >= self._low) & (values < self._low + len(self._table))
            rank = self._table[np.where(inside, values - self._low, 0)]
            return np.maximum(rank, 0), inside & (rank >= 0)
        rank = np.minimum(np.searchsorted(self._distinct, values), self.count - 1)
        return rank, self._distinct[rank] == values
