"""Ensembles of decision trees: forests and boosted trees."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from functools import reduce

import numpy as np
from xdsl.dialects.builtin import TensorType, i1, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import (
    Int,
    TreeAggregate,
    TreeAggregateAttr,
    integer,
)
from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.types import AnyTensor, Array, element_type, is_float, shape_of, tensor
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter, Scalar, Variable

_TOGETHER = 8
"""Ways down trees that are followed together: rows times trees."""

_STEPS = 2
"""Steps between two checks whether all of these ways have reached leaves."""


class Relation(IntFlag):
    """How a feature stands to a threshold; a test is the set of relations in which it holds."""

    LESS = 1
    EQUAL = 2
    GREATER = 4
    UNORDERED = 8


@irdl_op_definition
class TreeEnsembleOp(OpaqueOp):
    """What decision trees say of each row, combined for each target.

        %y = graph.tree_ensemble %x, %features, %thresholds, %tests, %next, %roots, %steps,
                 %targets, %weights {count = 3, aggregate = sum} : tensor<8x3xf32>

    x is [rows, columns]. Nodes are numbered, inner nodes first. Node n compares column
    `features[n]` with `thresholds[n]`, and goes on to `next[n, 1]` if the relation is in
    `tests[n]` (see `Relation`), else to `next[n, 0]`; a leaf goes to itself. Tree t starts at
    `roots[t]` and has at most `steps[t]` inner nodes on a way down. Leaf l gives `weights[l, k]` to
    target `targets[l, k]` for each k. A target that no leaf gave anything is 0. `test` is the
    test of all inner nodes, where they have one; then `tests` is not read.
    """

    name = "graph.tree_ensemble"

    x = operand_def(TensorType)
    features = operand_def(TensorType)
    thresholds = operand_def(TensorType)
    tests = operand_def(TensorType)
    next = operand_def(TensorType)
    roots = operand_def(TensorType)
    steps = operand_def(TensorType)
    targets = operand_def(TensorType)
    weights = operand_def(TensorType)
    count = prop_def(Int)
    test = opt_prop_def(Int)
    aggregate = prop_def(TreeAggregateAttr, default_value=TreeAggregateAttr(TreeAggregate.SUM))
    result = result_def(TensorType)

    def __init__(
        self,
        operands: Sequence[SSAValue | Operation],
        count: int,
        aggregate: TreeAggregate = TreeAggregate.SUM,
        test: int | None = None,
    ):
        """Operands as they are listed above."""
        super().__init__(
            list(operands),
            {
                "count": integer(count),
                "aggregate": TreeAggregateAttr(aggregate),
                "test": None if test is None else integer(test),
            },
        )

    def infer(self) -> Sequence[AnyTensor]:
        """[rows, count], of the weights' element type."""
        x, nodes, leaves = shape_of(self.x), shape_of(self.features), shape_of(self.weights)
        numbers = (self.features, self.tests, self.next, self.roots, self.steps, self.targets)
        if any(element_type(value) != i32 for value in numbers):
            raise VerifyException("numbers of columns, nodes and targets must be i32")
        if not is_float(element_type(self.x)) or element_type(self.thresholds) != element_type(
            self.x
        ):
            raise VerifyException(
                f"x and thresholds must be floats of one type, got {self.x.type} and "
                f"{self.thresholds.type}"
            )
        trees = shape_of(self.roots)
        fits = (
            len(x) == 2
            and x[1] > 0
            and len(nodes) == 1
            and len(trees) == 1
            and shape_of(self.thresholds) == shape_of(self.tests) == nodes
            and shape_of(self.next) == (*nodes, 2)
            and shape_of(self.steps) == trees
            and len(leaves) == 2
            and shape_of(self.targets) == leaves
            and 0 < leaves[0] <= nodes[0]
        )
        count = self.count.value.data
        if not fits or count < 1:
            types = ", ".join(str(value.type) for value in self.operands)
            raise VerifyException(f"operands of {types} are not trees with {count} targets")
        return (tensor((x[0], count), element_type(self.weights)),)

    @property
    def _inner(self) -> int:
        """The number of inner nodes."""
        return shape_of(self.features)[0] - shape_of(self.weights)[0]

    def compute_all(
        self,
        x: Array,
        features: Array,
        thresholds: Array,
        tests: Array,
        next: Array,
        roots: Array,
        steps: Array,
        targets: Array,
        weights: Array,
    ) -> Sequence[Array]:
        """The value by numpy: all trees of a row go down at once."""
        rows, nodes = np.arange(len(x))[:, None], np.tile(roots, (len(x), 1))
        for _ in range(int(steps.max(initial=0))):
            value, threshold = x[rows, features[nodes]], thresholds[nodes]
            with np.errstate(invalid="ignore"):
                relation = np.select(
                    [value < threshold, value == threshold, value > threshold],
                    [Relation.LESS, Relation.EQUAL, Relation.GREATER],
                    Relation.UNORDERED,
                )
            nodes = next[nodes, ((tests[nodes] & relation) != 0).astype(np.int64)]
        leaves = nodes - self._inner
        shape = (len(x), self.count.value.data)
        own, places = weights[leaves], (rows[..., None], targets[leaves])
        match self.aggregate.data:
            case TreeAggregate.SUM:
                result = np.zeros(shape, weights.dtype)
                np.add.at(result, places, own)
                return (result,)
            case TreeAggregate.MIN:
                combine, first = np.minimum, np.inf
            case TreeAggregate.MAX:
                combine, first = np.maximum, -np.inf
        result, touched = np.full(shape, first, weights.dtype), np.zeros(shape, np.bool_)
        combine.at(result, places, own)
        touched[places] = True
        return (np.where(touched, result, 0).astype(weights.dtype),)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Some go down together: while one waits for a load, others go on."""
        rows = buffers[0].shape[0]
        blocks = rows // _TOGETHER
        with k.loop(blocks, parallel=True) as block:
            self._walk(k, buffers, [block * _TOGETHER + row for row in range(_TOGETHER)])
        if rest := rows % _TOGETHER:
            first = k.scalar(blocks * _TOGETHER, INDEX)
            self._walk(k, buffers, [first + row for row in range(rest)])

    def _walk(self, k: KernelWriter, buffers: Sequence[Buffer], rows: Sequence[Scalar]) -> None:
        """All that some rows get."""
        roots, result = buffers[5], buffers[-1]
        count = result.shape[1]
        sums = self.aggregate.data is TreeAggregate.SUM
        # What min and max have seen of a target so far.
        seen = [None if sums else k.workspace((count,), i32) for _ in rows]
        with k.loop(count) as target:
            for row, own in zip(rows, seen, strict=True):
                result[row, target] = 0
                if own is not None:
                    own[target] = 0
        width = _TOGETHER // len(rows)
        blocks, rest = divmod(roots.shape[0], width)
        with k.loop(blocks) as block:
            trees = [block * width + tree for tree in range(width)]
            self._descend(k, buffers, rows, trees, seen)
        with k.loop(rest) as tree:
            self._descend(k, buffers, rows, [tree + blocks * width], seen)

    def _descend(
        self,
        k: KernelWriter,
        buffers: Sequence[Buffer],
        rows: Sequence[Scalar],
        trees: Sequence[Scalar],
        seen: Sequence[Buffer | None],
    ) -> None:
        """What some trees give to some rows, all step by step together."""
        _, _, _, _, _, roots, steps, targets, weights, result = buffers
        nodes = [[k.variable(i32, roots[tree]) for tree in trees] for _ in rows]
        most = reduce(Scalar.maximum, [steps[tree] for tree in trees]).maximum(0)
        extent = most.cast(INDEX)
        if len(rows) == 1:
            # Different trees end at different depths, so a check rarely pays off.
            with k.loop(extent):
                self._advance(k, buffers, rows, nodes)
        else:
            # Most rows are at a leaf long before the longest way through their tree ends.
            everywhere = [node for own in nodes for node in own]
            with k.loop((extent + (_STEPS - 1)).divided(_STEPS)):
                first = reduce(Scalar.minimum, [node.get() for node in everywhere])
                with k.when(first < self._inner):
                    for _ in range(_STEPS):
                        self._advance(k, buffers, rows, nodes)
        for row, own, marks in zip(rows, nodes, seen, strict=True):
            for node in own:
                leaf = _place(node.get() - self._inner, weights.shape[0])
                with k.loop(weights.shape[1]) as entry:
                    target = _place(targets[leaf, entry], result.shape[1])
                    old, new = result[row, target], weights[leaf, entry]
                    result[row, target] = self._combined(k, old, new, marks, target)

    def _advance(
        self,
        k: KernelWriter,
        buffers: Sequence[Buffer],
        rows: Sequence[Scalar],
        nodes: Sequence[Sequence[Variable]],
    ) -> None:
        """Take one step down each of the ways."""
        for row, own in zip(rows, nodes, strict=True):
            for node in own:
                node.set(self._step(k, buffers, row, node.get()))

    def _combined(
        self, k: KernelWriter, old: Scalar, new: Scalar, seen: Buffer | None, target: Scalar
    ) -> Scalar:
        """What a target has after one more leaf; `seen` says whether it had any."""
        if seen is None:
            return old + new
        better = new < old if self.aggregate.data is TreeAggregate.MIN else new > old
        is_first = seen[target].equals(0)
        seen[target] = 1
        return k.select(is_first | better, new, old, new.dtype)

    def _step(
        self, k: KernelWriter, buffers: Sequence[Buffer], row: Scalar, node: Scalar
    ) -> Scalar:
        """The node after one."""
        x, features, thresholds, tests, next, *_ = buffers
        own = _place(node, features.shape[0])
        value = x[row, _place(features[own], x.shape[1])]
        holds = self._holds(k, value, thresholds[own], tests, own)
        return next[own, k.select(holds, 1, 0, INDEX)]

    def _holds(
        self, k: KernelWriter, value: Scalar, threshold: Scalar, tests: Buffer, node: Scalar
    ) -> Scalar:
        """Whether a node's test holds."""
        relations = (
            (Relation.LESS, value < threshold),
            (Relation.EQUAL, value.equals(threshold)),
            (Relation.GREATER, value > threshold),
        )
        if self.test is None:
            relation = k.scalar(Relation.UNORDERED.value, i32)
            for own, holds in relations:
                relation = k.select(holds, own.value, relation, i32)
            return (tests[node] & relation).differs(0)
        wanted = Relation(self.test.value.data)
        if not wanted & Relation.UNORDERED:
            if wanted == Relation.LESS | Relation.EQUAL:
                return value <= threshold
            if wanted == Relation.GREATER | Relation.EQUAL:
                return value >= threshold
            inside = [holds for own, holds in relations if wanted & own]
            return _any(k, inside)
        outside = [holds for own, holds in relations if not wanted & own]
        return ~_any(k, outside)


def _any(k: KernelWriter, conditions: Sequence[Scalar]) -> Scalar:
    """Whether one of some holds."""
    return reduce(lambda a, b: a | b, conditions, k.scalar(False, i1))


def _place(number: Scalar, extent: int) -> Scalar:
    """A number from a table as an index; whatever the table holds, it is inside."""
    return number.maximum(0).minimum(extent - 1).cast(INDEX)
