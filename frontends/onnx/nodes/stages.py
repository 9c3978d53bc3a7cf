"""Models whose shapes depend on data: imported a stage at a time.

NonZero gives as many places as its data has, and a Reshape may take its shape from them. Nodes
that use such results cannot be imported before they are there, so they are left for a next stage,
which is imported once the one before has run: what it computed is then an input, of known shape,
and of known value where that decides more shapes.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.types import element_type, shape_of
from tcopt.frontends.onnx.context.builder import GraphBuilder
from tcopt.frontends.onnx.model.errors import Dimension, MeasuredError, MissingValuesError
from tcopt.frontends.onnx.model.inputs import ModelInput
from tcopt.frontends.onnx.model.values import (
    DEFERRED,
    Deferred,
    MapsValue,
    OptionalValue,
    Scope,
    SequenceValue,
    Value,
)
from tcopt.frontends.onnx.nodes.subgraphs import used_names
from tcopt.support.structures import Kind, tensor_names

_GIVEN_LIMIT = 64
"""Inputs of together so many elements are shapes, sizes and the like: a program is made for their
values. A value computed from more is data, and awaited."""

_COMPUTED = SSAValue | SequenceValue | MapsValue | OptionalValue

EXTENTS = ":extents"
"""What the output with a result's own extents is called after it."""


@dataclass(frozen=True)
class Stage:
    """What of a model is left to import.

    Attributes:
        nodes: the positions of its nodes.
        outputs: names of the model's outputs that it has to give.
        inputs: what earlier stages computed, beside the model's inputs; dimensions are open.
        known: values that earlier stages knew.
        lists: the sequences and optionals of earlier stages, by the names that their tensors have
            in `inputs` and `known`; None for an optional without an element.
        measured: those of `inputs` that no node of the model computes: numbers which nodes of
            this stage need to know.
    """

    nodes: tuple[int, ...]
    outputs: tuple[str, ...]
    inputs: tuple[ModelInput, ...] = ()
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    measured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rest:
    """What comes after a stage.

    Attributes:
        bounded: results in buffers that are as large as they can get, each with the output that
            says what of it is there: the extents, from the start of each dimension.
        stage: what is left to import; None if nothing.
    """

    bounded: Mapping[str, str]
    stage: Stage | None


class Staging:
    """Decides what is left for the next stage while one is imported.

    Args:
        arguments: the tensors that the stage is given.
        lists: names of the model's inputs that are not tensors.
    """

    def __init__(
        self, builder: GraphBuilder, arguments: Mapping[str, SSAValue], lists: Container[str] = ()
    ):
        self._builder = builder
        self._arguments = arguments
        self._lists = lists
        self._later: list[NodeProto] = []
        self._bounded: dict[str, SSAValue] = {}
        self._measured: dict[str, SSAValue] = {}

    def waits(self, node: NodeProto, scope: Scope) -> bool:
        """Whether a node uses what is not there yet; then it is left for later."""
        waits = any(isinstance(scope.get(name), Deferred) for name in used_names(node))
        if waits:
            self.leave(node, scope)
        return waits

    def leave(self, node: NodeProto, scope: Scope) -> None:
        """Leave a node for the next stage."""
        self._later.append(node)
        scope.update((name, DEFERRED) for name in node.output if name)

    def awaits(self, error: MissingValuesError, node: NodeProto, scope: Scope) -> bool:
        """Whether a value that a node needs is better awaited than asked of the caller."""
        if isinstance(error, MeasuredError):
            self._measured[error.name] = error.value
            return True
        given = [self._arguments[name] for name in error.inputs if name in self._arguments]
        # A program for one string is of no use for others.
        is_text = any(value in self._builder.texts for value in given)
        if not is_text and sum(math.prod(shape_of(value)) for value in given) <= _GIVEN_LIMIT:
            return False
        # Another stage only helps with what this one computes.
        operands = [scope.get(name) for name in used_names(node)]
        return any(
            isinstance(value, SSAValue)
            and isinstance(value.owner, Operation)
            and value not in self._builder.known
            for value in operands
        )

    def hold_back(self, node: NodeProto, scope: Scope) -> None:
        """Keep those results of a node from others of which only a part may be there."""
        for name in filter(None, node.output):
            value = scope.get(name)
            if isinstance(value, SSAValue) and value in self._builder.extents:
                self._bounded[name] = value
                scope[name] = DEFERRED

    def rest(
        self,
        nodes: Sequence[NodeProto],
        wanted: Sequence[str],
        scope: Scope,
        weights: Mapping[str, object],
    ) -> tuple[list[tuple[str, SSAValue]], Rest | None]:
        """What this stage gives beside the model's outputs, by name, and what comes after it.

        Args:
            nodes: all nodes of the model.
            wanted: names of the model's outputs that this stage or a later one gives.
            weights: the model's weights by name.
        """
        if not self._later and not self._bounded:
            return [], None
        given = {name for name in wanted if isinstance(scope.get(name), _COMPUTED)}
        results = {name: self._bounded[name] for name in wanted if name in self._bounded}
        known: dict[str, np.ndarray] = {}
        passed: list[ModelInput] = []
        lists: dict[str, tuple[str, ...] | None] = {}
        for name in dict.fromkeys(name for node in self._later for name in used_names(node)):
            value = self._bounded.get(name, scope.get(name))
            if name in weights or name in self._arguments or name in self._lists:
                continue
            for part, tensor in _tensors(name, value, lists):
                array = self._builder.array_of(tensor)
                if array is not None:
                    known[part] = array
                    continue
                passed.append(_as_input(self._builder, part, tensor))
                if name not in given:
                    results[part] = tensor
        for name, value in self._measured.items():
            passed.append(_as_input(self._builder, name, value))
            results[name] = value
        bounded = {name: name + EXTENTS for name in self._bounded if name in results}
        for name, place in bounded.items():
            results[place] = self._builder.extents[self._bounded[name]]
        if not self._later:
            return list(results.items()), Rest(bounded, None)
        left = {id(node) for node in self._later}
        stage = Stage(
            tuple(place for place, node in enumerate(nodes) if id(node) in left),
            tuple(name for name in wanted if name not in results and name not in given),
            tuple(passed),
            known,
            lists,
            tuple(self._measured),
        )
        return list(results.items()), Rest(bounded, stage)


def _tensors(
    name: str, value: Value, lists: dict[str, tuple[str, ...] | None]
) -> list[tuple[str, SSAValue]]:
    """The tensors of a value, by name; `lists` receives what is none."""
    match value:
        case SSAValue():
            return [(name, value)]
        case SequenceValue():
            names = tensor_names(name, Kind.SEQUENCE, len(value.items))
            lists[name] = tuple(names)
            return list(zip(names, value.items, strict=True))
        case OptionalValue():
            lists[name] = None
            return []
        case _:
            return []


def _as_input(builder: GraphBuilder, name: str, value: SSAValue) -> ModelInput:
    dims: list[Dimension] = [None for _ in shape_of(value)]
    return ModelInput(name, element_type(value), builder.dtype_of(value), dims)
