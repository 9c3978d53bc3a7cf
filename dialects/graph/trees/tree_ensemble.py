"""Ensembles of decision trees: forests and boosted trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f32, f64, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Int,
    TreeAggregate,
    TreeAggregateAttr,
    integer,
)
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    bits_of,
    element_type,
    is_unsigned_int,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.trees.tree_nodes import (
    FEATURE_BITS,
    NodeRelation,
    unpack_nodes,
    words_of,
)
from tcopt.dialects.graph.trees.tree_walk import TreeWriter
from tcopt.dialects.loop.writer import Buffer, KernelWriter

_SETS = range(1 << len(NodeRelation))


@irdl_op_definition
class TreeEnsembleOp(OpaqueOp):
    """Scores of rows by an ensemble of decision trees, combined for each target.

        %y = graph.tree_ensemble %x, %nodes, %roots, %targets, %weights
                 {count = 3, depth = 6, common = 3, varying = 8} : tensor<8x3xf32>

    x is [rows, columns]. `nodes` has a record for each inner node
    (`dialects/graph/trees/tree_nodes.py`): the column that it compares, the threshold, and its two
    children. The root of tree t has the address `roots[t]`; a path has at most `depth` inner nodes.
    Leaf l adds `weights[l, k]` to target `targets[l, k]` for each k. A target without weights is 0.
    `common` is the set of relations in which the tests of all inner nodes hold; `varying` is the
    set of those in which only the tests of some hold, according to their records.
    """

    name = "graph.tree_ensemble"

    x = operand_def(TensorType)
    nodes = operand_def(TensorType)
    roots = operand_def(TensorType)
    targets = operand_def(TensorType)
    weights = operand_def(TensorType)
    count = prop_def(Int)
    depth = prop_def(Int)
    common = prop_def(Int)
    varying = prop_def(Int)
    aggregate = prop_def(TreeAggregateAttr, default_value=TreeAggregateAttr(TreeAggregate.SUM))
    result = result_def(TensorType)

    def __init__(
        self,
        operands: Sequence[SSAValue | Operation],
        count: int,
        aggregate: TreeAggregate,
        depth: int,
        common: NodeRelation,
        varying: NodeRelation,
    ):
        """Operands are in the order listed above."""
        super().__init__(
            list(operands),
            {
                "count": integer(count),
                "aggregate": TreeAggregateAttr(aggregate),
                "depth": integer(depth),
                "common": integer(common.value),
                "varying": integer(varying.value),
            },
        )

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [rows, count], of the weights' element type."""
        x, nodes, leaves = shape_of(self.x), shape_of(self.nodes), shape_of(self.weights)
        if any(element_type(v) != i32 for v in (self.roots, self.targets)):
            raise VerifyException("roots and targets must be i32")
        dtype, word = element_type(self.x), element_type(self.nodes)
        if dtype not in (f32, f64):
            raise VerifyException(f"x must be f32 or f64, got {self.x.type}")
        if not is_unsigned_int(word) or bits_of(word) != 32:
            raise VerifyException(f"nodes must be ui32, got {self.nodes.type}")
        trees = shape_of(self.roots)
        fits = (
            len(x) == 2
            and 0 < x[1] <= 1 << FEATURE_BITS
            and len(nodes) == 1
            and nodes[0] > 0
            and nodes[0] % words_of(bits_of(dtype)) == 0
            and len(trees) == 1
            and trees[0] > 0
            and len(leaves) == 2
            and shape_of(self.targets) == leaves
            and leaves[0] > 0
        )
        count = self.count.value.data
        if not fits or count < 1:
            types = ", ".join(str(value.type) for value in self.operands)
            raise VerifyException(f"operands of {types} are not trees with {count} targets")
        common, varying = self.common.value.data, self.varying.value.data
        if (
            not (0 <= common < 1 << len(NodeRelation) and 0 <= varying < 1 << len(NodeRelation))
            or common & varying
        ):
            raise VerifyException(
                f"common = {common} and varying = {varying} are not disjoint sets of relations"
            )
        return (tensor((x[0], count), element_type(self.weights)),)

    def compute_all(
        self, x: Array, nodes: Array, roots: Array, targets: Array, weights: Array
    ) -> Sequence[Array]:
        """Evaluate with numpy, following all trees of all rows at once."""
        dtype = numpy_dtype(element_type(self.x))
        fields, words = unpack_nodes(nodes, dtype), words_of(dtype.itemsize * 8)
        last = len(nodes) - words
        rows, at = np.arange(len(x))[:, None], np.tile(roots.astype(np.int64), (len(x), 1))
        for _ in range(self.depth.value.data):
            node = np.minimum(at, last) // words
            value, threshold = x[rows, fields.features[node]], fields.thresholds[node]
            with np.errstate(invalid="ignore"):
                relation = np.select(
                    [value < threshold, value == threshold, value > threshold],
                    [NodeRelation.LESS, NodeRelation.EQUAL, NodeRelation.GREATER],
                    np.where(np.isnan(value), NodeRelation.UNORDERED, 0),
                )
            tests = fields.tests[node] | self.common.value.data
            child = fields.children[node, ((tests & relation) != 0).astype(np.int64)]
            at = np.where(at < last, child, at)
        leaves = at - last
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
        """Write loops that follow several paths together, to hide the latency of loads."""
        tests = NodeRelation(self.common.value.data), NodeRelation(self.varying.value.data)
        TreeWriter(k, buffers, self.aggregate.data, self.depth.value.data, *tests).write()
