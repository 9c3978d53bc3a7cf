"""Subgraphs of a node: import of their nodes, and functions for the bodies of loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, Protocol

import numpy as np
from onnx import GraphProto
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import shape_of, shape_of_type, tensor, type_of
from tcopt.frontends.onnx.context.builder import GraphBuilder
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.scans import append_steps
from tcopt.frontends.onnx.model.problems import AlreadyReported, Problems
from tcopt.frontends.onnx.model.values import Failed, Scope, Value, Values
from tcopt.frontends.onnx.nodes.step_function import StepFunction
from tcopt.frontends.onnx.nodes.subgraphs import captured_names
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.errors import TcoptError


class BodyImporter(Protocol):
    """Importer of the nodes of a subgraph."""

    builder: GraphBuilder
    problems: Problems

    def import_body(self, body: GraphProto, scope: Scope, where: str, depth: int) -> list[Value]:
        """Import a subgraph; return its outputs. `scope` has the names that it captures."""
        ...

    def try_body(
        self, body: GraphProto, scope: Scope, where: str, depth: int
    ) -> tuple[list[TcoptError], list[Value]]:
        """Import a subgraph; also return its errors, which are not reported."""
        ...


class Bodies:
    """The subgraphs of one node.

    Args:
        importer: importer of their nodes.
        ctx: context of the node.
        scope: names visible to the node.
        depth: nesting of the node in functions and subgraphs.
    """

    def __init__(self, importer: BodyImporter, ctx: NodeContext, scope: Scope, depth: int):
        self.importer = importer
        self.ctx = ctx
        self.scope = scope
        self.depth = depth

    def body(self, name: str, inputs: int | None = None) -> GraphProto:
        found = next((a.g for a in self.ctx.node.attribute if a.name == name), None)
        if found is None:
            self.ctx.malformed(f"there is no {name}")
        if inputs is not None and len(found.input) != inputs:
            self.ctx.malformed(f"its {name} takes {len(found.input)} values, not {inputs}")
        return found

    def import_with(
        self, body: GraphProto, inputs: Values, scope: Scope, label: str
    ) -> list[Value]:
        """Import a subgraph for given inputs; return its outputs."""
        inner = dict(scope)
        inner.update(zip((info.name for info in body.input), inputs, strict=True))
        where = f"{self.ctx.where}/{label}" if label else self.ctx.where
        return self.importer.import_body(body, inner, where, self.depth + 1)

    def imported(self, body: GraphProto, inputs: Values, scope: Scope, label: str) -> list[Value]:
        """Import a subgraph, failing if any of its nodes failed."""
        return without_failures(self.import_with(body, inputs, scope, label))

    def known(self, value: Value) -> np.ndarray | None:
        return self.importer.builder.value_of(value) if isinstance(value, SSAValue) else None

    def depends(self, what: str, value: SSAValue, detail: str = "") -> NoReturn:
        raise self.importer.builder.missing(value, what, self.ctx.where, detail=detail)

    def decided(self, value: Value, what: str) -> int:
        known = self.known(value)
        if known is None:
            known = self.ctx.builder.measured_value(what, self.ctx.where)
        if known is None or known.size != 1:
            if isinstance(value, SSAValue):
                self.depends(what, value)
            self.ctx.malformed(f"{what} is missing")
        return int(known.reshape(-1)[0])

    # Functions for loop bodies

    @contextmanager
    def function(
        self,
        states: Sequence[SSAValue],
        rows: Sequence[SSAValue],
        body: GraphProto,
        more: Sequence[SSAValue] = (),
    ) -> Iterator[StepFunction]:
        """Create the function of a loop body; ops are emitted into it within the context.

        Args:
            more: loop-invariant values that it needs besides those that the body names.
        """
        outer = self.importer.builder
        names = [name for name in captured_names(body) if name in self.scope]
        captured = [(name, self.scope[name]) for name in names]
        fixed = list(more)
        for _, value in captured:
            if isinstance(value, SSAValue) and value not in fixed and not outer.is_known(value):
                fixed.append(value)
        types: list[Attribute] = [state.type for state in states]
        types += [tensor(shape_of(row)[1:], type_of(row).element_type) for row in rows]
        types += [value.type for value in fixed]
        inner = outer.function(f"{self.ctx.op_type.lower()}_step", types)
        arguments = list(inner.block.args)
        inner.mark_texts([*states, *rows, *fixed], arguments)
        seen = dict(zip(fixed, arguments[len(states) + len(rows) :], strict=True))
        scope: Scope = {}
        for name, value in captured:
            if isinstance(value, SSAValue):
                scope[name] = seen[value] if value in seen else _copied(value, outer, inner)
            else:
                scope[name] = value
        self.importer.builder = self.ctx.builder = inner
        try:
            yield StepFunction(inner, arguments, fixed, scope)
        finally:
            self.importer.builder = self.ctx.builder = outer

    def applied(
        self,
        step: FuncOp,
        steps: Extent,
        states: Sequence[SSAValue],
        rows: Sequence[SSAValue],
        function: StepFunction,
        slices: Sequence[SSAValue],
    ) -> list[SSAValue]:
        types = [type_of(value) for value in slices]
        if steps == 0:
            empty = [self.ctx.zeros((0, *shape_of_type(t)), t.element_type) for t in types]
            self.ctx.builder.mark_texts(slices, empty)
            return [*states, *empty]
        types += [tensor((1,), i1)] * len(function.builder.checks)
        op = graph.ScanOp(step.sym_name.data, steps, states, rows, function.fixed, types)
        results = append_steps(self.ctx.builder, op, function.builder)
        self.ctx.builder.mark_texts([*states, *slices], results)
        return results


def without_failures(values: list[Value]) -> list[Value]:
    if any(isinstance(value, Failed) for value in values):
        raise AlreadyReported
    return values


def _copied(value: SSAValue, outer: GraphBuilder, inner: GraphBuilder) -> SSAValue:
    """Copy a known value into the function of a loop body."""
    if value in outer.sizes:
        return inner.size_values(outer.sizes[value], outer.dtype_of(value))
    if isinstance(value.owner, graph.ConstantOp):
        return inner.copy_constant(value)
    known = outer.array_of(value)
    assert known is not None
    return inner.constant(known)
