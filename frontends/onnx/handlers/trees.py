"""Handlers of decision tree ensembles (ai.onnx.ml): TreeEnsemble, and its two predecessors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.attributes import TreeAggregate
from tcopt.dialects.graph.trees.tree_ensemble import TreeEnsembleOp
from tcopt.dialects.graph.trees.tree_nodes import FEATURE_BITS, NodeRelation
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.context.trees import NodeNames, Trees
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.scores import (
    chosen_label,
    class_labels,
    transformed,
    two_classes,
)

_LESS, _EQUAL, _GREATER = NodeRelation.LESS, NodeRelation.EQUAL, NodeRelation.GREATER
_TESTS = {
    "BRANCH_LEQ": _LESS | _EQUAL,
    "BRANCH_LT": _LESS,
    "BRANCH_GTE": _GREATER | _EQUAL,
    "BRANCH_GT": _GREATER,
    "BRANCH_EQ": _EQUAL,
    "BRANCH_NEQ": _LESS | _GREATER | NodeRelation.UNORDERED,
}
_MODES = (*_TESTS, "BRANCH_MEMBER")
"""Names of modes in the order of their numbers in TreeEnsemble."""
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


# TreeEnsemble, since version 5


@handler("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(ctx: NodeContext) -> SSAValue:
    """Regression targets."""
    x = ctx.input(0)
    ctx.check(ctx.rank(x) == 2, f"x {list(ctx.shape(x))} should have two dimensions")
    trees = _trees(ctx)
    count = ctx.get_int("n_targets")
    aggregate = _named(ctx, "aggregate_function", _AGGREGATES, 1)
    scores = _scores(ctx, x, trees, count, aggregate)
    return transformed(ctx, scores, _named(ctx, "post_transform", _TRANSFORMS, 0))


def _named(ctx: NodeContext, name: str, names: Sequence[str], default: int) -> str:
    number = ctx.get_int(name, default)
    ctx.check(0 <= number < len(names), f"{name} cannot be {number}")
    return names[number]


def _trees(ctx: NodeContext) -> Trees:
    """Return the trees of a TreeEnsemble."""
    features = _list(ctx, "nodes_featureids")
    count = len(features)
    splits = _tensor(ctx, "nodes_splits", count)
    modes = _tensor(ctx, "nodes_modes", count).astype(np.int64)
    unknown = modes[(modes < 0) | (modes >= len(_MODES))]
    ctx.check(not unknown.size, f"nodes_modes cannot be {[*unknown[:1]]}")
    weights = ctx.get_tensor("leaf_weights")
    targets = _list(ctx, "leaf_targetids")
    if weights is None or weights.size != len(targets):
        ctx.malformed("leaf_weights and leaf_targetids differ in length")
    sides: list[np.ndarray] = []
    for name in ("true", "false"):
        places = _list(ctx, f"nodes_{name}nodeids", count)
        is_leaf = _list(ctx, f"nodes_{name}leafs", count) != 0
        sides.append(np.where(is_leaf, -1 - places, places))
    tests = np.array([_TESTS.get(mode, _EQUAL) for mode in _MODES], np.int64)[modes]
    trees = Trees(
        features,
        splits,
        _tracking(ctx, tests),
        *sides,
        leaves=len(targets),
        leaf=np.arange(len(targets)),
        targets=targets,
        weights=weights.reshape(-1).astype(np.float64),
        roots=_list(ctx, "tree_roots"),
    )
    _write_out_members(ctx, trees, np.flatnonzero(modes == _MODES.index("BRANCH_MEMBER")))
    return trees


def _tracking(ctx: NodeContext, tests: np.ndarray) -> np.ndarray:
    """Make tests hold for missing values in nodes that track these."""
    tracks = _list(ctx, "nodes_missing_value_tracks_true", len(tests))
    return np.where(tracks != 0, tests | NodeRelation.UNORDERED, tests)


def _write_out_members(ctx: NodeContext, trees: Trees, places: np.ndarray) -> None:
    """Replace tests for membership in a set by chains of equality tests."""
    if not places.size:
        return
    values = ctx.get_tensor("membership_values")
    sets: list[list[float]] = [[]]
    for value in [] if values is None else values.reshape(-1).tolist():
        if value != value:
            sets.append([])
        else:
            sets[-1].append(value)
    ctx.check(len(sets) >= len(places), f"membership_values has no {len(places)} sets")
    added: list[tuple[int, float, int, int]] = []
    for place, members in zip(places.tolist(), sets, strict=False):
        first, *others = members or [np.nan]
        feature, holds, fails = (
            int(table[place]) for table in (trees.features, trees.holds, trees.fails)
        )
        for member in reversed(others):
            added.append((feature, member, holds, fails))
            fails = trees.inner + len(added) - 1
        trees.thresholds[place], trees.fails[place] = first, fails
    if added:
        columns = [np.array(column) for column in zip(*added, strict=True)]
        tests = np.full(len(added), _EQUAL, np.int64)
        for name, more in zip(("thresholds", "holds", "fails"), columns[1:], strict=True):
            setattr(trees, name, np.concatenate([getattr(trees, name), more]))
        trees.tests = np.concatenate([trees.tests, tests])
        trees.features = np.concatenate([trees.features, columns[0]])


# Older forms


@handler("ai.onnx.ml.TreeEnsembleRegressor")
def tree_ensemble_regressor(ctx: NodeContext) -> SSAValue:
    """Regression targets, f32."""
    x = _rows(ctx)
    trees, targets = _older_trees(ctx, "target")
    count = ctx.get_int("n_targets", int(targets.max(initial=0)) + 1)
    aggregate = ctx.get_string("aggregate_function", "SUM")
    ctx.check(aggregate in _AGGREGATES, f"aggregate_function cannot be {aggregate!r}")
    scores = _scores(ctx, x, trees, count, aggregate)
    scores = _with_base(ctx, scores, count)
    return cast(ctx, transformed(ctx, scores, ctx.get_string("post_transform", "NONE")), f32)


@handler("ai.onnx.ml.TreeEnsembleClassifier")
def tree_ensemble_classifier(ctx: NodeContext) -> Sequence[SSAValue]:
    """The label of each row, and the scores of all classes, f32."""
    x = _rows(ctx)
    trees, classes = _older_trees(ctx, "class")
    labels = class_labels(ctx)
    transform = ctx.get_string("post_transform", "NONE")
    if len(labels) == 2:
        label, scores = _two_classes(ctx, x, trees, labels, transform, set(classes.tolist()))
        return label, cast(ctx, scores, f32)
    count = max(len(labels), 1)
    scores = _scores(ctx, x, trees, count, "SUM")
    scores = _with_base(ctx, scores, count)
    label = chosen_label(ctx, scores, labels)
    return label, cast(ctx, transformed(ctx, scores, transform), f32)


def _two_classes(
    ctx: NodeContext,
    x: SSAValue,
    trees: Trees,
    labels: np.ndarray,
    transform: str,
    stored: set[int],
) -> tuple[SSAValue, SSAValue]:
    """Return labels and scores for two classes; leaves may have scores for both or only one."""
    ctx.check(bool(stored) and stored <= {0, 1}, f"classes {sorted(stored)} should be 0 and 1")
    scores: list[SSAValue | None] = [None, None]
    if len(stored) == 2:
        both = _scores(ctx, x, trees, 2, "SUM")
        rows = ctx.shape(x)[0]
        scores = [ctx.emit(graph.SliceOp(both, (0, place), (rows, 1))) for place in (0, 1)]
    else:
        (place,) = stored
        trees.targets = np.zeros_like(trees.targets)
        scores[place] = _scores(ctx, x, trees, 1, "SUM")
    votes = bool((trees.weights >= 0).all())
    return two_classes(ctx, scores, labels, transform, _base(ctx), votes=votes)


def _rows(ctx: NodeContext) -> SSAValue:
    """Return x as f64 or f32 rows; integers become f32."""
    x = ctx.input(0)
    if ctx.rank(x) == 1:
        x = ctx.emit(graph.ReshapeOp(x, (1, *ctx.shape(x))))
    ctx.check(ctx.rank(x) == 2, f"x {list(ctx.shape(x))} should have two dimensions")
    return cast(ctx, x, f64 if ctx.element(x) == f64 else f32)


def _older_trees(ctx: NodeContext, what: str) -> tuple[Trees, np.ndarray]:
    """Return the trees of an ensemble with nodes named by tree and number, and all targets."""
    owners = _list(ctx, "nodes_treeids")
    count = len(owners)
    names = NodeNames(owners, _list(ctx, "nodes_nodeids", count))
    ctx.check(names.are_unique, "two nodes have the same number")
    features = _list(ctx, "nodes_featureids", count)
    values = _values(ctx, "nodes_values", count)
    tests = _older_tests(ctx, count)
    is_leaf = tests < 0
    inner = np.flatnonzero(~is_leaf)
    # Inner nodes and leaves are numbered separately, in the order of all nodes.
    leaves = np.cumsum(is_leaf, dtype=np.int64)
    known = np.where(is_leaf, -leaves, np.arange(count) - leaves)
    is_root = np.ones(count, np.bool_)
    sides: list[np.ndarray] = []
    for side in ("true", "false"):
        wanted = _list(ctx, f"nodes_{side}nodeids", count)[inner]
        found = names.find(owners[inner], wanted)
        for lost in np.flatnonzero(found < 0)[:1]:
            ctx.malformed(f"node {wanted[lost]} of tree {owners[inner[lost]]} is missing")
        is_root[found] = False
        sides.append(known[found])
    targets, entries = _list(ctx, f"{what}_ids"), []
    for part in ("treeids", "nodeids"):
        entries.append(_list(ctx, f"{what}_{part}", len(targets)))
    weights = _values(ctx, f"{what}_weights", len(targets))
    giver = names.find(entries[0], entries[1])
    # Entries of inner nodes are ignored, as no row ends there.
    there = np.flatnonzero((giver >= 0) & is_leaf[giver]) if count else np.zeros(0, np.int64)
    roots = known[is_root]
    number = len(np.unique(owners))
    ctx.check(len(roots) == number, f"{number} trees have {len(roots)} roots")
    trees = Trees(
        features[inner],
        values[inner],
        _tracking(ctx, tests)[inner],
        *sides,
        leaves=count - len(inner),
        leaf=-1 - known[giver[there]],
        targets=targets[there],
        weights=weights[there],
        roots=roots,
    )
    return trees, targets


def _older_tests(ctx: NodeContext, count: int) -> np.ndarray:
    """Return the test of each node; -1 for leaves."""
    modes = ctx.get_bytes("nodes_modes")
    ctx.check(len(modes) == count, f"nodes_modes has {len(modes)} entries for {count} nodes")
    codes = {name.encode(): int(test) for name, test in _TESTS.items()} | {b"LEAF": -1}
    for mode in set(modes) - set(codes):
        ctx.malformed(f"nodes_modes cannot be {mode.decode(errors='replace')!r}")
    return np.fromiter(map(codes.__getitem__, modes), np.int64, count)


def _list(ctx: NodeContext, name: str, count: int | None = None) -> np.ndarray:
    """Return an integer list attribute, checking its length; zeros if omitted."""
    found = ctx.get_int_array(name)
    if count is None:
        return found
    found = found if found.size else np.zeros(count, np.int64)
    ctx.check(len(found) == count, f"{name} has {len(found)} entries for {count}")
    return found


def _tensor(ctx: NodeContext, name: str, count: int) -> np.ndarray:
    found = ctx.get_tensor(name)
    size = 0 if found is None else found.size
    ctx.check(found is not None and size == count, f"{name} has {size} entries for {count}")
    assert found is not None
    return found.reshape(-1).astype(np.float64)


def _values(ctx: NodeContext, name: str, count: int) -> np.ndarray:
    """Return a float list attribute, or an equivalent tensor attribute of doubles."""
    if ctx.get_tensor(f"{name}_as_tensor") is not None:
        return _tensor(ctx, f"{name}_as_tensor", count)
    # Keep the model's 32-bit values: comparisons with thresholds must be exact.
    found = ctx.get_float_array(name)
    ctx.check(len(found) == count, f"{name} has {len(found)} entries for {count}")
    return found


# Common to all forms


def _scores(ctx: NodeContext, x: SSAValue, trees: Trees, count: int, aggregate: str) -> SSAValue:
    """Return the total score of the trees for each target, [rows, count]."""
    ctx.check(1 <= count <= ctx.builder.limits.made_elements, f"there cannot be {count} targets")
    ctx.check(trees.roots.size, "there are no trees")
    depth = trees.depth(ctx.malformed)
    columns = ctx.shape(x)[1]
    for what, numbers, limit in (
        ("target", trees.targets, count),
        ("feature", trees.features, columns),
    ):
        for wrong in numbers[(numbers < 0) | (numbers >= limit)][:1]:
            ctx.malformed(f"{what} {wrong} is out of range for {limit}")
    ctx.check(columns <= 1 << FEATURE_BITS, f"{columns} features are too many")
    given, targets, weights = trees.entries()
    ctx.check(
        aggregate in ("SUM", "AVERAGE") or (given == given.max()).all(),
        "MIN and MAX are not defined for leaves with different numbers of targets",
    )
    wide = x if ctx.element(x) == f64 else cast(ctx, x, f32)
    dtype = ctx.builder.dtype_of(wide)
    trees.simplify_nan_thresholds()
    nodes, roots = trees.records(dtype)
    ctx.check(nodes.size + trees.leaves < 1 << 31, "there are too many nodes")
    tables = (
        nodes,
        roots.astype(np.int32),
        targets.astype(np.int32),
        weights.astype(dtype),
    )
    kinds = {"MIN": TreeAggregate.MIN, "MAX": TreeAggregate.MAX}
    operands = [wide, *(ctx.array(table) for table in tables)]
    kind = kinds.get(aggregate, TreeAggregate.SUM)
    scores = ctx.emit(TreeEnsembleOp(operands, count, kind, depth, *trees.relations()))
    scores = cast(ctx, scores, ctx.element(x))
    if aggregate == "AVERAGE":
        scores = ctx.emit(graph.DivOp(scores, ctx.literal(float(len(trees.roots)), scores)))
    return scores


def _base(ctx: NodeContext) -> list[float]:
    if ctx.get_tensor("base_values_as_tensor") is not None:
        found = ctx.get_tensor("base_values_as_tensor")
        assert found is not None
        return [float(v) for v in found.reshape(-1)]
    return ctx.get_floats("base_values") or []


def _with_base(ctx: NodeContext, scores: SSAValue, count: int) -> SSAValue:
    """Add the base values of targets: one for each target."""
    base = _base(ctx)
    if not base:
        return scores
    ctx.check(len(base) == count, f"base_values has {len(base)} entries for {count}")
    return ctx.emit(graph.AddOp(scores, ctx.literal(np.array(base), scores)))
