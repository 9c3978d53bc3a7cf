"""Ensembles of decision trees (ai.onnx.ml): TreeEnsemble, and the two older forms of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.attributes import TreeAggregate
from tcopt.dialects.graph.tree_ensemble import Relation, TreeEnsembleOp
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.scores import (
    chosen_label,
    class_labels,
    transformed,
    two_classes,
)

_LESS, _EQUAL, _GREATER = Relation.LESS, Relation.EQUAL, Relation.GREATER
_TESTS = {
    "BRANCH_LEQ": _LESS | _EQUAL,
    "BRANCH_LT": _LESS,
    "BRANCH_GTE": _GREATER | _EQUAL,
    "BRANCH_GT": _GREATER,
    "BRANCH_EQ": _EQUAL,
    "BRANCH_NEQ": _LESS | _GREATER | Relation.UNORDERED,
}
_MODES = (*_TESTS, "BRANCH_MEMBER")
"""By the numbers that TreeEnsemble has for them."""
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True)
class Node:
    """An inner node: where it goes if its test holds, and otherwise. Leaves are below zero."""

    feature: int
    threshold: float
    test: Relation
    holds: int
    fails: int


@dataclass
class Trees:
    """Trees as ONNX's forms have them in common.

    Attributes:
        nodes: by number; one whose number is negative, -1 - l, is leaf l.
        leaves: what each leaf gives to which targets.
    """

    nodes: list[Node]
    leaves: list[list[tuple[int, float]]]
    roots: list[int]


class _Fails(Protocol):
    def __call__(self, message: str) -> NoReturn: ...


# The form since version 5


@handler("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(ctx: NodeContext) -> SSAValue:
    """Targets of regression."""
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
    """The trees of a TreeEnsemble."""
    features = ctx.get_ints("nodes_featureids") or []
    count = len(features)
    splits = _tensor(ctx, "nodes_splits", count)
    modes = [int(m) for m in _tensor(ctx, "nodes_modes", count)]
    tracks = _list(ctx, "nodes_missing_value_tracks_true", count)
    weights = ctx.get_tensor("leaf_weights")
    targets = ctx.get_ints("leaf_targetids") or []
    if weights is None or weights.size != len(targets):
        ctx.malformed("leaf_weights and leaf_targetids differ in length")
    leaves = [[(t, float(w))] for t, w in zip(targets, weights.reshape(-1), strict=True)]
    sides = []
    for name in ("true", "false"):
        places = _list(ctx, f"nodes_{name}nodeids", count)
        is_leaf = _list(ctx, f"nodes_{name}leafs", count)
        pairs = zip(places, is_leaf, strict=True)
        sides.append([-1 - place if leaf else place for place, leaf in pairs])
    nodes: list[Node] = []
    rows = zip(features, splits, modes, tracks, *sides, strict=True)
    for feature, split, mode, track, holds, fails in rows:
        ctx.check(0 <= mode < len(_MODES), f"nodes_modes cannot be {mode}")
        test = _TESTS.get(_MODES[mode], _EQUAL)
        nodes.append(Node(feature, float(split), _tracking(test, track), holds, fails))
    _write_out_members(ctx, nodes, modes)
    roots = ctx.get_ints("tree_roots") or []
    return Trees(nodes, leaves, roots)


def _tracking(test: Relation, track: int) -> Relation:
    return test | Relation.UNORDERED if track else test


def _write_out_members(ctx: NodeContext, nodes: list[Node], modes: Sequence[int]) -> None:
    """Tests of membership in a set as chains of tests for equality."""
    places = [place for place, mode in enumerate(modes) if _MODES[mode] == "BRANCH_MEMBER"]
    if not places:
        return
    values = ctx.get_tensor("membership_values")
    sets: list[list[float]] = [[]]
    for value in [] if values is None else values.reshape(-1):
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(float(value))
    ctx.check(len(sets) >= len(places), f"membership_values has no {len(places)} sets")
    for place, members in zip(places, sets, strict=False):
        node = nodes[place]
        unordered = node.test & Relation.UNORDERED
        first, *others = members or [np.nan]
        fails = node.fails
        for member in reversed(others):
            nodes.append(Node(node.feature, member, _EQUAL, node.holds, fails))
            fails = len(nodes) - 1
        nodes[place] = Node(node.feature, first, _EQUAL | unordered, node.holds, fails)


# The forms before


@handler("ai.onnx.ml.TreeEnsembleRegressor")
def tree_ensemble_regressor(ctx: NodeContext) -> SSAValue:
    """Targets of regression, f32."""
    x = _rows(ctx)
    trees, targets = _older_trees(ctx, "target")
    count = ctx.get_int("n_targets", max(targets, default=0) + 1)
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
        label, scores = _two_classes(ctx, x, trees, labels, transform, set(classes))
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
    """The label and the scores of each row, where leaves give to both classes or to one."""
    ctx.check(bool(stored) and stored <= {0, 1}, f"classes {sorted(stored)} are not two")
    scores: list[SSAValue | None] = [None, None]
    if len(stored) == 2:
        both = _scores(ctx, x, trees, 2, "SUM")
        rows = ctx.shape(x)[0]
        scores = [ctx.emit(graph.SliceOp(both, (0, place), (rows, 1))) for place in (0, 1)]
    else:
        (place,) = stored
        trees.leaves = [[(0, weight) for _, weight in leaf] for leaf in trees.leaves]
        scores[place] = _scores(ctx, x, trees, 1, "SUM")
    votes = all(weight >= 0 for leaf in trees.leaves for _, weight in leaf)
    return two_classes(ctx, scores, labels, transform, _base(ctx), votes=votes)


def _rows(ctx: NodeContext) -> SSAValue:
    """x as rows of floats: those of 64 bits, and integers as 32."""
    x = ctx.input(0)
    if ctx.rank(x) == 1:
        x = ctx.emit(graph.ReshapeOp(x, (1, *ctx.shape(x))))
    ctx.check(ctx.rank(x) == 2, f"x {list(ctx.shape(x))} should have two dimensions")
    return cast(ctx, x, f64 if ctx.element(x) == f64 else f32)


def _older_trees(ctx: NodeContext, what: str) -> tuple[Trees, list[int]]:
    """The trees of an ensemble whose nodes are named by tree and number; all of its targets."""
    owners = ctx.get_ints("nodes_treeids") or []
    count = len(owners)
    numbers = _list(ctx, "nodes_nodeids", count)
    features = _list(ctx, "nodes_featureids", count)
    values = _values(ctx, "nodes_values", count)
    modes = ctx.get_strings("nodes_modes") or []
    ctx.check(len(modes) == count, f"nodes_modes has {len(modes)} entries for {count} nodes")
    tracks = _list(ctx, "nodes_missing_value_tracks_true", count)
    names = list(zip(owners, numbers, strict=True))
    ctx.check(len(set(names)) == count, "two nodes have one number")
    inner = [place for place, mode in enumerate(modes) if mode != "LEAF"]
    leaves = {names[place]: -1 - n for n, place in enumerate(_others(inner, count))}
    known = {names[place]: n for n, place in enumerate(inner)} | leaves
    sides = [_list(ctx, f"nodes_{side}nodeids", count) for side in ("true", "false")]

    def follow(place: int, side: Sequence[int]) -> int:
        name = owners[place], side[place]
        ctx.check(name in known, f"node {name[1]} of tree {name[0]} is missing")
        return known[name]

    nodes: list[Node] = []
    for place in inner:
        ctx.check(modes[place] in _TESTS, f"nodes_modes cannot be {modes[place]!r}")
        test = _tracking(_TESTS[modes[place]], tracks[place])
        ways = [follow(place, side) for side in sides]
        nodes.append(Node(features[place], values[place], test, *ways))
    given, targets = _leaf_entries(ctx, what, leaves)
    pointed = {way for node in nodes for way in (node.holds, node.fails)}
    starts = [known[name] for name in names if known[name] not in pointed]
    trees = len(set(owners))
    ctx.check(len(starts) == trees, f"{trees} trees have {len(starts)} roots")
    return Trees(nodes, given, starts), targets


def _others(places: Sequence[int], count: int) -> Iterable[int]:
    chosen = set(places)
    return (place for place in range(count) if place not in chosen)


def _leaf_entries(
    ctx: NodeContext, what: str, leaves: dict[tuple[int, int], int]
) -> tuple[list[list[tuple[int, float]]], list[int]]:
    """What each leaf gives to which targets, and the targets of all."""
    targets = ctx.get_ints(f"{what}_ids") or []
    owners = _list(ctx, f"{what}_treeids", len(targets))
    numbers = _list(ctx, f"{what}_nodeids", len(targets))
    weights = _values(ctx, f"{what}_weights", len(targets))
    given: list[list[tuple[int, float]]] = [[] for _ in leaves]
    for target, owner, number, weight in zip(targets, owners, numbers, weights, strict=True):
        leaf = leaves.get((owner, number))
        if leaf is not None:  # What is stored for inner nodes is never given.
            given[-1 - leaf].append((target, weight))
    return given, targets


def _list(ctx: NodeContext, name: str, count: int) -> list[int]:
    """An attribute with an entry for each of some; zeros where it is left out."""
    found = ctx.get_ints(name) or [0] * count
    ctx.check(len(found) == count, f"{name} has {len(found)} entries for {count}")
    return found


def _tensor(ctx: NodeContext, name: str, count: int) -> list[float]:
    found = ctx.get_tensor(name)
    size = 0 if found is None else found.size
    ctx.check(found is not None and size == count, f"{name} has {size} entries for {count}")
    assert found is not None
    return [float(value) for value in found.reshape(-1)]


def _values(ctx: NodeContext, name: str, count: int) -> list[float]:
    """Numbers that are floats, or a tensor of 64-bit ones."""
    if ctx.get_tensor(f"{name}_as_tensor") is not None:
        return _tensor(ctx, f"{name}_as_tensor", count)
    # Of 32 bits, as the model has them: a threshold decides to the last bit.
    found = ctx.get_floats(name) or []
    ctx.check(len(found) == count, f"{name} has {len(found)} entries for {count}")
    return found


# What all have in common


def _scores(ctx: NodeContext, x: SSAValue, trees: Trees, count: int, aggregate: str) -> SSAValue:
    """[rows, count]: what the trees give to each target."""
    ctx.check(1 <= count <= ctx.builder.limits.made_elements, f"there are {count} targets")
    ctx.check(bool(trees.roots), "there are no trees")
    steps = _depths(trees, ctx.malformed)
    inner, leaves = len(trees.nodes), max(len(trees.leaves), 1)
    most = max((len(leaf) for leaf in trees.leaves), default=0)
    targets = np.zeros((leaves, max(most, 1)), np.int32)
    weights = np.zeros(targets.shape, np.float64)
    for number, leaf in enumerate(trees.leaves):
        for place, (target, weight) in enumerate(leaf):
            ctx.check(0 <= target < count, f"target {target} is none of {count}")
            targets[number, place], weights[number, place] = target, weight
        # Places beyond give nothing, and to nobody new.
        targets[number, len(leaf) :] = leaf[0][0] if leaf else 0
    columns = ctx.shape(x)[1]
    for node in trees.nodes:
        ctx.check(0 <= node.feature < columns, f"feature {node.feature} is none of {columns}")
    ctx.check(
        aggregate in ("SUM", "AVERAGE") or all(len(leaf) == most for leaf in trees.leaves),
        "the least or the greatest of leaves with different numbers of targets is not defined",
    )

    def number_of(place: int) -> int:
        return inner - 1 - place if place < 0 else place

    rest = [0] * leaves
    itself = [(n, n) for n in range(inner, inner + leaves)]
    ways = [(number_of(node.fails), number_of(node.holds)) for node in trees.nodes]
    dtype = ctx.builder.dtype_of(x)
    tables = (
        np.array([n.feature for n in trees.nodes] + rest, np.int32),
        np.array([n.threshold for n in trees.nodes] + rest).astype(dtype),
        np.array([int(n.test) for n in trees.nodes] + rest, np.int32),
        np.array(ways + itself, np.int32),
        np.array([number_of(root) for root in trees.roots], np.int32),
        np.array(steps, np.int32),
        targets,
        weights.astype(dtype),
    )
    kinds = {"MIN": TreeAggregate.MIN, "MAX": TreeAggregate.MAX}
    operands = [x, *(ctx.array(table) for table in tables)]
    kind = kinds.get(aggregate, TreeAggregate.SUM)
    tests = {int(node.test) for node in trees.nodes} or {0}
    test = tests.pop() if len(tests) == 1 else None
    scores = ctx.emit(TreeEnsembleOp(operands, count, kind, test))
    if aggregate == "AVERAGE":
        scores = ctx.emit(graph.DivOp(scores, ctx.literal(float(len(trees.roots)), scores)))
    return scores


def _depths(trees: Trees, fail: Callable[[str], NoReturn]) -> list[int]:
    """How many inner nodes there are at most on a way down each tree."""
    depth: dict[int, int] = {-1 - leaf: 0 for leaf in range(len(trees.leaves))}
    open_: set[int] = set()
    for root in trees.roots:
        pending = [root]
        while pending:
            place = pending[-1]
            if place in depth:
                pending.pop()
                continue
            if not 0 <= place < len(trees.nodes):
                fail(f"there is no {'node' if place >= 0 else 'leaf'} {max(place, -1 - place)}")
            node = trees.nodes[place]
            below = [way for way in (node.holds, node.fails) if way not in depth]
            if not below:
                depth[place] = 1 + max(depth[node.holds], depth[node.fails])
                open_.discard(place)
                pending.pop()
            elif place in open_:
                fail("a tree has a cycle")
            else:
                open_.add(place)
                pending += below
    if len(depth) < len(trees.nodes) + len(trees.leaves):
        fail("a tree has a cycle, or no root leads to some of its nodes")
    return [depth[root] for root in trees.roots]


def _base(ctx: NodeContext) -> list[float]:
    if ctx.get_tensor("base_values_as_tensor") is not None:
        found = ctx.get_tensor("base_values_as_tensor")
        assert found is not None
        return [float(v) for v in found.reshape(-1)]
    return ctx.get_floats("base_values") or []


def _with_base(ctx: NodeContext, scores: SSAValue, count: int) -> SSAValue:
    """What targets have before the trees: a number for each, or one for the only one."""
    base = _base(ctx)
    if not base:
        return scores
    ctx.check(len(base) == count, f"base_values has {len(base)} entries for {count}")
    return ctx.emit(graph.AddOp(scores, ctx.literal(np.array(base), scores)))
