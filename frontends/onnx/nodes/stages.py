"""Staged import of models whose shapes depend on data.

The result shape of NonZero depends on its data, and a Reshape may take its shape from such results.
Nodes that use them cannot be imported until they have been computed. They are left to the next
stage, which is imported after the previous one has run. The results are then inputs of known shape,
and of known value where they determine further shapes.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

import numpy as np
from onnx import NodeProto
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.types import shape_of
from tcopt.frontends.onnx.context.builder import GraphBuilder
from tcopt.frontends.onnx.model.errors import MeasuredError, MissingValuesError
from tcopt.frontends.onnx.model.stage import ImportStage, PassedTensor, Rest
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
from tcopt.support.data.structures import Kind, tensor_names

_GIVEN_LIMIT = 64
"""If the inputs that a value depends on have at most this many elements, they are shapes, sizes and
the like. The program is then specialised on their values, unless the needed value itself is
smaller. Values computed from more elements are left to the next stage.
"""

_COMPUTED = SSAValue | SequenceValue | MapsValue | OptionalValue

EXTENTS = ":extents"
"""Suffix of the output that has the extents of a result."""


class NodeStaging:
    """Decides which nodes are left to the next stage during import.

    Args:
        stage: the stage being imported.
        arguments: its input tensors by name.
        lists: names of the model's inputs that are not tensors.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        stage: ImportStage,
        arguments: Mapping[str, SSAValue],
        lists: Container[str] = (),
    ):
        self._builder = builder
        self._stage = stage
        self._arguments = arguments
        passed = {item.name for item in stage.inputs}
        self._tensors = {name for name in arguments if name not in passed}
        self._lists = lists
        self._later: list[NodeProto] = []
        self._bounded: dict[str, SSAValue] = {}
        self._measured: dict[str, SSAValue] = {}
        self._before: dict[str, SSAValue] = {}
        self._checks = 0

    def waits(self, node: NodeProto, scope: Scope, depth: int) -> bool:
        """Whether a node depends on results of a later stage; if so, it is left to that stage.

        Args:
            depth: nesting of the node; only nodes of the main graph are left to a later stage.
        """
        waits = any(isinstance(scope.get(name), Deferred) for name in used_names(node))
        if waits and depth:
            defer(node, scope)
        elif waits:
            self.leave(node, scope)
        return waits

    def leave(self, node: NodeProto, scope: Scope) -> None:
        """Leave a node to the next stage."""
        self._later.append(node)
        defer(node, scope)

    def awaits(self, error: MissingValuesError, node: NodeProto, scope: Scope) -> bool:
        """Whether this stage, not the caller, should provide a value that a node needs."""
        # Values measured by subgraphs of the node are requested again by a later stage.
        self._measured = dict(self._before)
        if isinstance(error, MeasuredError):
            return self.measures(error)
        if self._is_by_value(error):
            return False
        # Another stage only helps if this one computes an operand.
        operands = [scope.get(name) for name in used_names(node)]
        return any(
            isinstance(value, SSAValue)
            and isinstance(value.owner, Operation)
            and value not in self._builder.known
            for value in operands
        )

    def measures(self, error: MissingValuesError) -> bool:
        """Whether this stage can compute a value that a node needs, for the next stage.

        The next stage imports the node again, including the nodes that contain it.
        """
        if error.value is None or error.name is None:
            return False
        is_large = math.prod(shape_of(error.value)) > _GIVEN_LIMIT
        if not isinstance(error, MeasuredError) and (is_large or self._is_by_value(error)):
            return False
        self._measured[error.name] = error.value
        return True

    def begin(self) -> None:
        """Start the import of a node of the main graph."""
        self._before, self._checks = dict(self._measured), len(self._builder.checks)

    def lacks(self, node: NodeProto, scope: Scope) -> bool:
        """Whether subgraphs of a node of the main graph need values that this stage measures.

        If so, the node is left to the next stage.
        """
        if len(self._measured) == len(self._before):
            return False
        del self._builder.checks[self._checks :]
        self.leave(node, scope)
        return True

    def _is_by_value(self, error: MissingValuesError) -> bool:
        """Whether to specialise the program on the values of the inputs that a value depends on."""
        given = [self._arguments[name] for name in error.inputs if name in self._arguments]
        # Specialising on strings is not useful.
        is_text = any(value in self._builder.texts for value in given)
        if is_text or sum(math.prod(shape_of(value)) for value in given) > _GIVEN_LIMIT:
            return False
        # A smaller value has fewer possible values than the inputs.
        return error.value is None or self._bytes([error.value]) >= self._bytes(given)

    def _bytes(self, values: Sequence[SSAValue]) -> int:
        return sum(math.prod(shape_of(v)) * self._builder.dtype_of(v).itemsize for v in values)

    def hold_back(self, node: NodeProto, scope: Scope) -> None:
        """Defer bounded results of a node, of which only a part may be valid."""
        for name in filter(None, node.output):
            value = scope.get(name)
            if isinstance(value, SSAValue) and value in self._builder.extents:
                self._bounded[name] = value
                scope[name] = DEFERRED

    def rest(
        self, nodes: Sequence[NodeProto], scope: Scope, weights: Container[str]
    ) -> tuple[list[tuple[str, SSAValue]], Rest | None]:
        """Return the results of this stage besides the model's outputs, and the part after it.

        Args:
            nodes: all nodes of the model.
            weights: names of the model's weights.
        """
        if not self._later and not self._bounded:
            return [], None
        wanted = self._stage.outputs
        given = {name for name in wanted if isinstance(scope.get(name), _COMPUTED)}
        results = {name: self._bounded[name] for name in wanted if name in self._bounded}
        known: dict[str, np.ndarray] = {}
        passed: list[PassedTensor] = []
        lists: dict[str, tuple[str, ...] | None] = {}
        values: dict[str, Value] = {
            name: self._bounded.get(name, scope.get(name))
            for name in dict.fromkeys(name for node in self._later for name in used_names(node))
            if not (name in weights or name in self._tensors or name in self._lists)
        }
        measured = {**self._builder.measured, **self._measured}
        for name, value in (*values.items(), *measured.items()):
            for part, tensor in _tensors(name, value, lists):
                array = self._builder.array_of(tensor)
                if array is not None:
                    known[part] = array
                    continue
                dtype, rank = self._builder.dtype_of(tensor), len(shape_of(tensor))
                passed.append(PassedTensor(part, dtype, rank))
                if name not in given and self._arguments.get(part) is not tensor:
                    results[part] = tensor
        bounded = {name: name + EXTENTS for name in self._bounded if name in results}
        for name, extents in bounded.items():
            results[extents] = self._builder.extents[self._bounded[name]]
        if not self._later:
            return list(results.items()), Rest(bounded, None)
        left = {id(node) for node in self._later}
        stage = ImportStage(
            tuple(position for position, node in enumerate(nodes) if id(node) in left),
            tuple(name for name in wanted if name not in results and name not in given),
            tuple(passed),
            known,
            lists,
            tuple(measured),
        )
        return list(results.items()), Rest(bounded, stage)


def defer(node: NodeProto, scope: Scope) -> None:
    """Mark the results of a node as computed by a later stage."""
    scope.update((name, DEFERRED) for name in node.output if name)


def _tensors(
    name: str, value: Value, lists: dict[str, tuple[str, ...] | None]
) -> list[tuple[str, SSAValue]]:
    """Return the tensors of a value by name; `lists` receives sequences and optionals."""
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
