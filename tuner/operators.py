"""Operators of a model for which graph passes have tunable choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from tcopt.compiler.options import CompileOptions
from tcopt.compiler.passes import run_passes
from tcopt.compiler.tuned import before_choices
from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import is_made_of_constants
from tcopt.dialects.graph.core.tuning import BLOCK, FUSE, PANEL, PARTS, WINOGRAD
from tcopt.dialects.graph.core.types import element_type, is_float, shape_of
from tcopt.dialects.graph.core.weights import release_weights
from tcopt.dialects.graph.reduction.reduce import ReductionOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, TargetFacts
from tcopt.frontends.onnx.importer import import_first_stage
from tcopt.frontends.onnx.model.options import Source
from tcopt.passes.graph.layout.blocked_forms import contracts
from tcopt.passes.graph.winograd.exact_tiles import whole_tiles
from tcopt.passes.graph.winograd.forms import shared_filter
from tcopt.passes.graph.winograd.winograd import allowed_tiles
from tcopt.schedules.passes.apply_tuning import operator_key
from tcopt.schedules.tuning.workloads import key_of, target_text
from tcopt.support.ir.origins import node_names
from tcopt.support.ir.rewriting import function_bodies

MOST_PANEL = 6
"""Maximum width of a panel of weights, in vectors."""


@dataclass(frozen=True)
class Operator:
    """Identical operators of a model, which share their choices.

    Attributes:
        key: of the operator, as in lock files; `target`: the key of the target.
        nodes: the ONNX nodes that they compute.
        choices: values to try, one decision at a time.
    """

    key: str
    target: str
    nodes: tuple[str, ...]
    choices: tuple[Mapping[str, int], ...]


def operators_of(source: Source, options: CompileOptions) -> list[Operator]:
    """Return the contractions and long reductions of a model with choices in graph passes.

    Raises:
        TcoptError: the model is malformed or not supported.
    """
    (graph,) = (phase for phase in options.phases if phase.name == "graph")
    module = import_first_stage(source, options)
    try:
        run_passes(module, before_choices(graph.passes))
        return _operators(module, options.accuracy)
    finally:
        release_weights(module)


def _operators(module: ModuleOp, accuracy: str) -> list[Operator]:
    facts, target = module.attributes.get(TARGET_ATTRIBUTE), key_of(target_text(module))
    found: dict[str, Operator] = {}
    for body in function_bodies(module):
        for op in body.ops:
            if not isinstance(op, ContractionOp | ReductionOp):
                continue
            key, nodes = operator_key(op), node_names(op.location)
            if key in found:
                nodes = (*found[key].nodes, *nodes)
            choices = (
                list(_choices(op, facts, accuracy))
                if isinstance(op, ContractionOp)
                else [{PARTS: count} for count in op.part_counts()]
            )
            found[key] = Operator(key, target, nodes, tuple(choices))
    return [operator for operator in found.values() if operator.choices]


def _choices(
    op: ContractionOp, facts: Attribute | None, accuracy: str
) -> Iterator[Mapping[str, int]]:
    """Yield the choices that passes accept for an operator; some may have no effect."""
    if contracts(op):
        filter_ = shared_filter(op)
        if filter_ is not None and is_made_of_constants(op.weights):
            whole = not is_float(element_type(op.weights))
            tiles = whole_tiles(*filter_) if whole else allowed_tiles(accuracy, *filter_)
            yield from ({WINOGRAD: tile} for tile in (*tiles, 0))
        yield {BLOCK: 0}
    elif is_made_of_constants(op.weights) and len(shape_of(op.weights)) == 2:
        units = facts.vectors if isinstance(facts, TargetFacts) else None
        columns = prod(shape_of(op.weights)[1:])
        if units is not None:
            lanes = units.lanes(32)
            widths = range(lanes, min(MOST_PANEL * lanes, columns) + 1, lanes)
            yield from ({PANEL: width} for width in widths)
            yield {PANEL: 0}
    yield {FUSE: 0}
