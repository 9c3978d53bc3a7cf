"""Decision tree ensembles, against onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcopt
from models.checks import run_imported, run_reference
from tcopt.dialects.graph.trees import tree_walk
from tcopt.frontends.onnx import import_model
from tcopt.runtime.device.program import DeviceProgram
from tcopt.support.errors import ImportModelError

COLUMNS = 5
KINDS = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.int64: TensorProto.INT64}


@dataclass
class Forest:
    """Random trees as attributes of the older operators."""

    modes: tuple[str, ...] = ("BRANCH_LEQ",)
    rows: dict[str, list] = field(default_factory=dict)
    entries: list[tuple[int, int, int, float]] = field(default_factory=list)

    def grow(
        self, rng: np.random.Generator, trees: int, depth: int, targets: list[list[int]], low=-1.0
    ) -> Forest:
        """Add trees whose leaves contribute to one of the lists of targets."""
        names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids"]
        self.rows = {name: [] for name in (*names, "falsenodeids", "missing_value_tracks_true")}
        for tree in range(trees):
            self._tree(rng, tree, depth, targets, low)
        return self

    def _tree(self, rng, tree, depth, targets, low):
        pending, number = [(0, depth)], 1
        while pending:
            node, left = pending.pop()
            is_leaf = left == 0 or (left < depth and rng.random() < 0.2)
            ways = (0, 0) if is_leaf else (number, number + 1)
            mode = "LEAF" if is_leaf else str(rng.choice(self.modes))
            # Some thresholds occur exactly in the data.
            values = (tree, node, int(rng.integers(COLUMNS)), float(rng.integers(-4, 5)) / 2)
            for name, value in zip(
                self.rows, (*values, mode, *ways, int(rng.integers(2))), strict=True
            ):
                self.rows[name].append(value)
            if is_leaf:
                for target in targets[int(rng.integers(len(targets)))]:
                    self.entries.append((tree, node, target, float(rng.uniform(low, 1))))
            else:
                pending += [(number, left - 1), (number + 1, left - 1)]
                number += 2

    def attributes(self, what: str) -> dict:
        names = (f"{what}_treeids", f"{what}_nodeids", f"{what}_ids", f"{what}_weights")
        entries = dict(zip(names, map(list, zip(*self.entries, strict=True)), strict=True))
        return {f"nodes_{name}": values for name, values in self.rows.items()} | entries


def model_of(op_type: str, attributes: dict, kind=TensorProto.FLOAT, outputs=1, version=3):
    names = ["y", "z"][:outputs]
    node = helper.make_node(op_type, ["x"], names, domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", kind, ["n", COLUMNS])
    # A classifier returns labels, then scores.
    types = [TensorProto.INT64, TensorProto.FLOAT][-outputs:]
    pairs = zip(names, types, strict=True)
    results = [helper.make_tensor_value_info(name, type_, None) for name, type_ in pairs]
    graph = helper.make_graph([node], "g", [x], results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(
    model: onnx.ModelProto,
    rng: np.random.Generator,
    dtype=np.float32,
    *,
    rows=(19,),
    compiled=(),
) -> None:
    """Compare numpy on `rows`, and code on `compiled`, with onnxruntime.

    Some values are missing, many are equal to thresholds.
    """
    program = tcopt.compile(model, workers=0) if compiled else None
    for count in (*rows, *compiled):
        x = (rng.integers(-5, 6, (count, COLUMNS)) / 2).astype(dtype)
        if dtype is not np.int64:
            x[rng.random(x.shape) < 0.1] = np.nan
        expected = run_reference(model, {"x": x})
        results = [run_imported(model, {"x": x}, shapes={"x": list(x.shape)})]
        if program is not None and count in compiled:
            results.append(program.run({"x": x}))
        for actual in results:
            for ours, theirs in zip(actual, expected, strict=True):
                assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


ALL_MODES = tuple(f"BRANCH_{name}" for name in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ"))


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize(("dtype", "rows"), [(np.float32, 1), (np.float64, 11)])
@pytest.mark.parametrize("modes", [*((mode,) for mode in ALL_MODES), ALL_MODES])
def test_sums(dtype, rows, modes, rng: np.random.Generator):
    forest = Forest(modes).grow(rng, 9, 4, [[0], [1, 2], [0, 1, 2]])
    options = {**forest.attributes("target"), "n_targets": 3, "base_values": [1.0, -2.0, 0.5]}
    model = model_of("TreeEnsembleRegressor", options, KINDS[dtype])
    check(model, rng, dtype, compiled=[rows])


@pytest.mark.parametrize("tracks", [0, 1])
def test_all_or_no_nodes_track_missing_values(tracks: int, rng: np.random.Generator):
    forest = Forest(("BRANCH_LT",)).grow(rng, 3, 3, [[0]])
    nodes = len(forest.rows["modes"])
    forest.rows["missing_value_tracks_true"] = [tracks] * nodes
    options = {**forest.attributes("target"), "n_targets": 1}
    check(model_of("TreeEnsembleRegressor", options), rng, compiled=[3] * tracks)


def test_thresholds_that_are_nan(rng: np.random.Generator):
    """Comparisons with nan are false; only a missing feature follows the tracked branch."""
    forest = Forest(ALL_MODES).grow(rng, 9, 4, [[0]])
    forest.rows["values"] = [np.nan if n % 3 else 0.5 for n in range(len(forest.rows["modes"]))]
    options = {**forest.attributes("target"), "n_targets": 1}
    check(model_of("TreeEnsembleRegressor", options), rng, compiled=[5])


@pytest.mark.parametrize("bounds", [{"_LONG_LIST": 2}, {"_FAR": 0, "_FEW_ROWS": 8}])
def test_orders_of_rows_and_trees(bounds: dict[str, int], rng: np.random.Generator):
    """Rows one by one, all together, and in chunks; blocks of trees with a remainder of one."""
    forest = Forest(("BRANCH_LT",)).grow(rng, 23, 6, [[0], [1]])
    options = {**forest.attributes("target"), "n_targets": 2}
    with mock.patch.multiple(tree_walk, _PATHS=40, **bounds):
        check(model_of("TreeEnsembleRegressor", options), rng, compiled=[19])


@pytest.mark.parametrize("rows", [7, pytest.param(290, marks=pytest.mark.nightly(every=2))])
def test_deep_trees(rows: int, rng: np.random.Generator):
    """Paths of many lengths, in more rows than are traversed together."""
    depth = 70
    forest = Forest()
    forest.rows = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes")}
    forest.rows |= {"truenodeids": [], "falsenodeids": []}
    for tree in (0, 1):
        # The next inner node, or the last leaf; otherwise a separate leaf.
        nodes = [
            (tree, node, node % COLUMNS, node / depth / 2, "BRANCH_GT", node + 1, depth + 1 + node)
            for node in range(depth)
        ]
        nodes += [(tree, depth + leaf, 0, 0.0, "LEAF", 0, 0) for leaf in range(depth + 1)]
        for column, values in zip(forest.rows.values(), zip(*nodes, strict=True), strict=True):
            column += values
        forest.entries += [(tree, node[1], 0, float(rng.uniform(-1, 1))) for node in nodes[depth:]]
    options = {**forest.attributes("target"), "n_targets": 1}
    model = model_of("TreeEnsembleRegressor", options)
    x = rng.random((rows, COLUMNS)).astype(np.float32)
    (y,) = tcopt.compile(model, workers=0).run({"x": x})
    np.testing.assert_array_equal(y, run_reference(model, {"x": x})[0])


@pytest.mark.parametrize("aggregate", ["AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_aggregates(aggregate: str, targets: int, rng: np.random.Generator):
    forest = Forest().grow(rng, 5, 3, [list(range(targets))])
    options = {"n_targets": targets, "aggregate_function": aggregate}
    model = model_of("TreeEnsembleRegressor", {**forest.attributes("target"), **options})
    check(model, rng, compiled=[2] if (aggregate, targets) in (("MIN", 3), ("MAX", 1)) else [])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("base", [0, 3])
def test_classes(transform: str, base: int, rng: np.random.Generator):
    forest = Forest().grow(rng, 9, 3, [[0, 1, 2]])
    options = {"classlabels_int64s": [7, -3, 5], "post_transform": transform}
    options |= {"base_values": [0.5, -0.25, 0.125]} if base else {}
    attributes = {**forest.attributes("class"), **options}
    compiled = [3] if transform == "SOFTMAX_ZERO" and base else []
    check(model_of("TreeEnsembleClassifier", attributes, outputs=2), rng, compiled=compiled)


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("base", [[], [0.25], [0.5, -0.25]])
@pytest.mark.parametrize(
    ("low", "stored"), [(-1.0, [0]), (0.0, [0]), (-1.0, [1]), (0.0, [1]), (-1.0, [0, 1])]
)
def test_two_classes(transform, base, low, stored, rng: np.random.Generator):
    """Boosted trees have one score for both classes, forests the fraction of votes."""
    forest = Forest().grow(rng, 6, 3, [stored], low)
    # onnxruntime ignores labels if there are scores for both.
    labels = [4, 9] if len(stored) == 1 else [0, 1]
    options = {"classlabels_int64s": labels, "post_transform": transform}
    options |= {"base_values": base} if base else {}
    attributes = {**forest.attributes("class"), **options}
    check(model_of("TreeEnsembleClassifier", attributes, outputs=2), rng)


def test_a_device_gets_few_launches(rng: np.random.Generator):
    """Loops over rows and trees become launches that share no register."""
    forest = Forest().grow(rng, 37, 2, [[0]])
    options = {**forest.attributes("target"), "n_targets": 1}
    model = model_of("TreeEnsembleRegressor", options)
    program = tcopt.compile(model, target="opencl", dims={"n": 11}, workers=0).program
    assert isinstance(program, DeviceProgram)
    assert len(program.steps) <= 6


def test_trees_of_one_leaf_and_missing_values(rng: np.random.Generator):
    forest = Forest().grow(rng, 3, 0, [[0]])
    options = {**forest.attributes("target"), "n_targets": 1}
    check(model_of("TreeEnsembleRegressor", options), rng, compiled=[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes_truenodeids": [99] * 3}, "node 99 of tree 0 is missing"),
        ({"nodes_falsenodeids": [0, 0, 0]}, "a tree has a cycle"),
        ({"nodes_featureids": [5, 0, 0]}, "feature 5 is out of range for 5"),
        ({"target_ids": [1, 0]}, "target 1 is out of range for 1"),
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF"]}, "2 entries for 3"),
        ({"nodes_modes": ["WRONG", "LEAF", "LEAF"]}, "cannot be 'WRONG'"),
        ({"base_values": [1.0, 2.0]}, "2 entries for 1"),
    ],
)
def test_trees_that_are_none(change: dict, message: str):
    attributes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    with pytest.raises(ImportModelError, match=message):
        import_model(
            model_of("TreeEnsembleRegressor", {**attributes, **change}), shapes={"x": [2, COLUMNS]}
        )


def test_sets_of_members(rng: np.random.Generator):
    """The form since version 5: set-membership tests, leaves separate from nodes."""
    attributes = {
        "n_targets": 2,
        "tree_roots": [0],
        "nodes_featureids": [0, 1, 2],
        "nodes_modes": numpy_helper.from_array(np.array([6, 0, 6], np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.array([0, 0.5, 0], np.float32)),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [0, 1, 1],
        "membership_values": numpy_helper.from_array(
            np.array([1, 2.5, -1, np.nan, 0.5, -2, np.nan], np.float32)
        ),
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": numpy_helper.from_array(np.array([1, 2, 3, 4], np.float32)),
    }
    model = model_of("TreeEnsemble", attributes, version=5)
    x = (rng.integers(-5, 6, (40, COLUMNS)) / 2).astype(np.float32)
    (y,) = tcopt.compile(model, workers=0).run({"x": x})
    first = np.isin(x[:, 0], [1, 2.5, -1])
    second, third = x[:, 1] <= 0.5, np.isin(x[:, 2], [0.5, -2])
    leaf = np.where(first, np.where(second, 0, 1), np.where(third, 2, 3))
    expected = np.zeros((40, 2), np.float32)
    expected[np.arange(40), leaf % 2] = leaf + 1
    np.testing.assert_array_equal(y, expected)
