"""If, Loop and Scan, whose subgraphs are inlined or become functions.

A loop whose iterations have equal types becomes a `graph.scan` over a function. Loops that are
short, whose values change their shapes, or that end by a condition, are unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, Protocol

import numpy as np
from onnx import GraphProto, ValueInfoProto
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import (
    numpy_dtype,
    shape_of,
    shape_of_type,
    tensor,
    type_of,
)
from tcopt.frontends.onnx.context.builder import GraphBuilder
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.model.errors import MissingValuesError
from tcopt.frontends.onnx.model.problems import AlreadyReported, Problems
from tcopt.frontends.onnx.model.types import declared_dtype
from tcopt.frontends.onnx.model.values import (
    DEFERRED,
    Deferred,
    Failed,
    Scope,
    Value,
    Values,
)
from tcopt.frontends.onnx.nodes.step_function import StepFunction
from tcopt.frontends.onnx.nodes.subgraphs import captured_names
from tcopt.support.errors import TcoptError, UnsupportedError

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
"""Operators with subgraphs."""

_IF = "the condition of If"
_UNROLLED_STEPS = 16
"""Maximum trip count of loops that are always unrolled, which makes more shapes known."""


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

    def run(self, operands: Values) -> Values:
        """Import the node; return its results."""
        match self.ctx.op_type:
            case "If":
                return self._branch(operands)
            case "Loop":
                return self._loop(operands)
            case _:
                return self._scan(operands)

    def _body(self, name: str, inputs: int | None = None) -> GraphProto:
        found = next((a.g for a in self.ctx.node.attribute if a.name == name), None)
        if found is None:
            self.ctx.malformed(f"there is no {name}")
        if inputs is not None and len(found.input) != inputs:
            self.ctx.malformed(f"its {name} takes {len(found.input)} values, not {inputs}")
        return found

    def _import(self, body: GraphProto, inputs: Values, scope: Scope, label: str) -> list[Value]:
        """Import a subgraph for given inputs; return its outputs."""
        inner = dict(scope)
        inner.update(zip((info.name for info in body.input), inputs, strict=True))
        where = f"{self.ctx.where}/{label}" if label else self.ctx.where
        return self.importer.import_body(body, inner, where, self.depth + 1)

    def _imported(self, body: GraphProto, inputs: Values, scope: Scope, label: str) -> list[Value]:
        """Import a subgraph, failing if any of its nodes failed."""
        return _without_failures(self._import(body, inputs, scope, label))

    def _known(self, value: Value) -> np.ndarray | None:
        return self.importer.builder.value_of(value) if isinstance(value, SSAValue) else None

    # If

    def _branch(self, operands: Values) -> Values:
        """Import the branch of a known condition; otherwise both, and select their results."""
        condition = operands[0] if operands else None
        known = self._known(condition)
        if known is None:
            known = self.ctx.builder.measured_value(_IF, self.ctx.where)
        if known is not None and known.size == 1:
            wanted = "then_branch" if known.reshape(-1)[0] else "else_branch"
            return self._imported(self._body(wanted, 0), [], self.scope, "")
        if not isinstance(condition, SSAValue):
            self.ctx.malformed("its condition is missing")
        builder = self.ctx.builder
        functions, checks = len(builder.functions), len(builder.checks)
        try:
            return self._choice(condition)
        except MissingValuesError:
            # The branches are imported again when the condition is known.
            del builder.functions[functions:], builder.checks[checks:]
            raise

    def _choice(self, condition: SSAValue) -> Values:
        """Import both branches and select their results.

        Raises:
            MissingValuesError: only one of the branches can be imported, or their shapes differ.
        """
        names = ("then_branch", "else_branch")
        trials = [self._tried(name, condition, name == names[0]) for name in names]
        failed = [errors for errors, _ in trials if errors]
        found = [error for errors in failed for error in errors]
        if len(failed) == 1 or any(isinstance(error, MissingValuesError) for error in found):
            # A branch may be invalid for shapes for which it is not taken.
            self._depends(_IF, condition, _why(found))
        for error in found:
            self.importer.problems.add(error)
        results: list[Value] = []
        for yes, no in zip(*(_without_failures(values) for _, values in trials), strict=True):
            if not isinstance(yes, SSAValue) or not isinstance(no, SSAValue):
                self._depends(_IF, condition)
            if yes.type != no.type:
                self._depends(_IF, condition, ", which decides shapes,")
            flag = self.ctx.emit(graph.ReshapeOp(condition, ()))
            results.append(self._moved(yes, graph.SelectOp(flag, yes, no)))
        return results

    def _tried(
        self, name: str, condition: SSAValue, taken: bool
    ) -> tuple[list[TcoptError], list[Value]]:
        """Import a branch; return errors and results. Its checks only apply if it is taken."""
        first = len(self.ctx.builder.checks)
        where = f"{self.ctx.where}/{name}"
        tried = self.importer.try_body(self._body(name, 0), dict(self.scope), where, self.depth + 1)
        self.ctx.builder.narrow_checks(first, condition, taken)
        return tried

    def _depends(self, what: str, value: SSAValue, detail: str = "") -> NoReturn:
        raise self.importer.builder.missing(value, what, self.ctx.where, detail=detail)

    # Loop

    def _loop(self, operands: Values) -> Values:
        count, condition, *states = [*operands, *[None] * (2 - len(operands))]
        body = self._body("body", 2 + len(states))
        self.ctx.check(
            len(body.output) >= 1 + len(states), "its body returns fewer values than it takes"
        )
        steps: int | None = None
        if count is not None:
            steps = int(self._decided(count, "the number of steps of Loop"))
        if condition is not None and not self._decided(condition, "the condition of Loop"):
            steps = 0
        if steps is not None and steps > _UNROLLED_STEPS:
            results = self._loop_as_scan(body, steps, states)
            if results is not None:
                return results
        return self._unrolled(body, steps, states)

    def _decided(self, value: Value, what: str) -> int:
        known = self._known(value)
        if known is None:
            known = self.ctx.builder.measured_value(what, self.ctx.where)
        if known is None or known.size != 1:
            if isinstance(value, SSAValue):
                self._depends(what, value)
            self.ctx.malformed(f"{what} is missing")
        return int(known.reshape(-1)[0])

    def _unrolled(self, body: GraphProto, steps: int | None, states: Values) -> Values:
        collected: list[list[Value]] = [[] for _ in body.output[1 + len(states) :]]
        step, current = 0, list(states)
        yes = self.ctx.array(np.array(True))
        while steps is None or step < steps:
            if step == self.ctx.builder.limits.loop_steps:
                raise UnsupportedError(
                    f"a Loop of more than {step} iterations that its condition may end, whose "
                    "values change their shapes or that makes sequences, is not supported",
                    where=self.ctx.where,
                    hint=f"export a different loop, or raise the limit loop-steps={step}",
                )
            number = self.ctx.array(np.array(step, np.int64))
            results = self._imported(body, [number, yes, *current], self.scope, f"step {step}")
            goes_on, *rest = results
            current = rest[: len(states)]
            if isinstance(goes_on, Deferred):
                return [DEFERRED] * (len(results) - 1)
            for column, value in zip(collected, rest[len(states) :], strict=True):
                column.append(self._row(value))
            step += 1
            if not self._decided(goes_on, f"the condition of Loop after step {step}"):
                break
        infos = body.output[1 + len(states) :]
        return [*current, *map(self._joined, infos, collected)]

    def _row(self, value: Value) -> Value:
        """Return a result of an iteration as a row of a result of the loop."""
        if isinstance(value, Deferred):
            return value
        if not isinstance(value, SSAValue):
            raise UnsupportedError(
                "a step of Loop has a result that is not a tensor", where=self.ctx.where
            )
        return self._moved(value, graph.ReshapeOp(value, (1, *shape_of(value))))

    def _joined(self, info: ValueInfoProto, rows: Sequence[Value]) -> Value:
        """Concatenate the rows of a loop; without rows, return an empty tensor."""
        tensors = [row for row in rows if isinstance(row, SSAValue)]
        if len(tensors) < len(rows):
            return DEFERRED
        if tensors:
            return self._moved(tensors[0], graph.ConcatOp(tensors, axis=0))
        declared = info.type.tensor_type
        shape = [max(dim.dim_value, 0) for dim in declared.shape.dim]
        dtype = declared_dtype(declared.elem_type, self.ctx.where)
        return self.ctx.array(np.zeros((0, *shape), dtype))

    def _loop_as_scan(self, body: GraphProto, steps: int, states: Values) -> Values | None:
        """Import the loop as a scan; None if types vary or the condition may change."""
        values = [state for state in states if isinstance(state, SSAValue)]
        if len(values) < len(states):
            return None
        self.ctx.builder.check_made(steps)
        number = self.ctx.array(np.arange(steps, dtype=np.int64))
        count = len(values)
        with self._function(values, [number], body) as function:
            arguments = function.arguments
            yes = self.ctx.array(np.array(True))
            inputs = [arguments[count], yes, *arguments[:count]]
            try:
                results = self._imported(body, inputs, function.scope, "step")
            except MissingValuesError:
                # Unrolled iterations may have different shapes.
                function.drop()
                return None
            goes_on = self._known(results[0])
            outputs = [value for value in results[1:] if isinstance(value, SSAValue)]
            alike = len(outputs) == len(results) - 1 and all(
                new.type == old.type for new, old in zip(outputs, values, strict=False)
            )
            if goes_on is None or not goes_on.all() or not alike:
                function.drop()
                return None
            step = function.finish(outputs)
        return self._applied(step, steps, values, [number], function, outputs[count:])

    # Scan

    def _scan(self, operands: Values) -> Values:
        if self.ctx.opset < 9:
            return self._scan_of_batches(operands)
        inputs = self.ctx.get_int("num_scan_inputs")
        count = len(operands) - inputs
        self.ctx.check(inputs >= 1 and count >= 0, f"it has no {inputs} inputs to scan")
        values: list[SSAValue] = []
        for value in operands:
            if not isinstance(value, SSAValue):
                self.ctx.unsupported("Scan over values that are not tensors is not supported")
            values.append(value)
        axes = self._per_item("scan_input_axes", inputs)
        turned = self._per_item("scan_input_directions", inputs)
        rows = [
            self._turned(self._axis_first(value, axis), backwards)
            for value, axis, backwards in zip(values[count:], axes, turned, strict=True)
        ]
        return self._scanned(values[:count], rows, "scan_output_axes", "scan_output_directions")

    def _scanned(
        self,
        states: list[SSAValue],
        rows: list[SSAValue],
        axes_name: str | None,
        directions_name: str | None,
    ) -> list[SSAValue]:
        body = self._body("body", len(states) + len(rows))
        steps, count = shape_of(rows[0])[0], len(states)
        if any(shape_of(row)[0] != steps for row in rows):
            self.ctx.malformed("the scanned inputs have different numbers of slices")
        with self._function(states, rows, body) as function:
            arguments = function.arguments[: count + len(rows)]
            results = self._imported(body, arguments, function.scope, "step")
            outputs: list[SSAValue] = []
            for value in results:
                if not isinstance(value, SSAValue):
                    self.ctx.unsupported("a step of Scan has a result that is not a tensor")
                outputs.append(value)
            for new, old in zip(outputs, states, strict=False):
                if new.type != old.type:
                    self.ctx.unsupported(
                        f"a state of Scan changes from {old.type} to {new.type}, which "
                        "is not supported"
                    )
            step = function.finish(outputs)
        slices = outputs[count:]
        final = self._applied(step, steps, states, rows, function, slices)
        axes = self._per_item(axes_name, len(slices))
        turned = self._per_item(directions_name, len(slices))
        columns = [
            self._axis_back(self._turned(value, backwards), axis)
            for value, axis, backwards in zip(final[count:], axes, turned, strict=True)
        ]
        return [*final[:count], *columns]

    def _scan_of_batches(self, operands: Values) -> Values:
        """Import the first version of Scan: each entry of a batch is scanned separately."""
        inputs = self.ctx.get_int("num_scan_inputs")
        values = [value for value in operands[1:] if isinstance(value, SSAValue)]
        self.ctx.check(len(values) == len(operands) - 1, "an operand is not a tensor")
        turned = self._per_item("directions", inputs)
        count, batch = len(values) - inputs, shape_of(values[0])[0]
        entries: list[list[SSAValue]] = []
        steps = shape_of(values[-1])[1]
        lengths = [steps] * batch
        if operands[0] is not None:
            if not isinstance(operands[0], SSAValue):
                self.ctx.malformed("the lengths are not a tensor")
            lengths = self.ctx.known_ints(operands[0], "the sequence lengths")
            self.ctx.check(
                len(lengths) == batch and all(0 <= n <= steps for n in lengths),
                f"sequence lengths {lengths} do not fit {batch} sequences of {steps} steps",
            )
        for entry, length in enumerate(lengths):
            own = [self._entry(value, entry) for value in values]
            rows = [
                self._turned(self._cut(v, length), b)
                for v, b in zip(own[count:], turned, strict=True)
            ]
            found = self._scanned(own[:count], rows, None, None)
            found[count:] = [self._filled(value, steps) for value in found[count:]]
            entries.append([self._moved(v, graph.ReshapeOp(v, (1, *shape_of(v)))) for v in found])
        return [self._moved(c[0], graph.ConcatOp(c, axis=0)) for c in zip(*entries, strict=True)]

    def _entry(self, value: SSAValue, entry: int) -> SSAValue:
        shape = shape_of(value)
        starts = [entry, *[0] * (len(shape) - 1)]
        part = self._moved(value, graph.SliceOp(value, starts, [1, *shape[1:]]))
        return self._moved(part, graph.ReshapeOp(part, shape[1:]))

    def _cut(self, value: SSAValue, length: int) -> SSAValue:
        """Return the first slices of a value."""
        shape = shape_of(value)
        if length == shape[0]:
            return value
        return self._moved(value, graph.SliceOp(value, [0] * len(shape), [length, *shape[1:]]))

    def _filled(self, value: SSAValue, length: int) -> SSAValue:
        """Append slices of zeros to a value."""
        shape = shape_of(value)
        if length == shape[0]:
            return value
        others = [0] * (len(shape) - 1)
        op = graph.PadOp(value, low=[0, *others], high=[length - shape[0], *others])
        return self._moved(value, op)

    def _per_item(self, name: str | None, count: int) -> list[int]:
        listed = (self.ctx.get_ints(name) if name else None) or [0] * count
        self.ctx.check(len(listed) == count, f"{name} {listed} should have {count} entries")
        return listed

    def _moved(self, value: SSAValue, op: Operation) -> SSAValue:
        """Emit an op that moves elements of a value; return the result."""
        result = self.ctx.emit(op)
        self.ctx.builder.mark_texts([value], [result])
        return result

    def _axis_first(self, value: SSAValue, axis: int) -> SSAValue:
        rank = len(shape_of(value))
        own = self.ctx.axis(axis, rank)
        order = [own, *(d for d in range(rank) if d != own)]
        return self._moved(value, graph.TransposeOp(value, order)) if own else value

    def _axis_back(self, value: SSAValue, axis: int) -> SSAValue:
        rank = len(shape_of(value))
        own = self.ctx.axis(axis, rank)
        order = [*range(1, own + 1), 0, *range(own + 1, rank)]
        return self._moved(value, graph.TransposeOp(value, order)) if own else value

    def _turned(self, value: SSAValue, backwards: int) -> SSAValue:
        if not backwards:
            return value
        self.ctx.builder.check_made(shape_of(value)[0])
        places = self.ctx.array(np.arange(shape_of(value)[0])[::-1].copy())
        return self._moved(value, graph.GatherOp(value, places, axis=0))

    # Functions for loop bodies

    @contextmanager
    def _function(
        self, states: Sequence[SSAValue], rows: Sequence[SSAValue], body: GraphProto
    ) -> Iterator[StepFunction]:
        """Create the function of a loop body; ops are emitted into it within the context."""
        outer = self.importer.builder
        names = [name for name in captured_names(body) if name in self.scope]
        captured = [(name, self.scope[name]) for name in names]
        fixed: list[SSAValue] = []
        for _, value in captured:
            if isinstance(value, SSAValue) and value not in outer.known and value not in fixed:
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

    def _applied(
        self,
        step: FuncOp,
        steps: int,
        states: Sequence[SSAValue],
        rows: Sequence[SSAValue],
        function: StepFunction,
        slices: Sequence[SSAValue],
    ) -> list[SSAValue]:
        types = [type_of(value) for value in slices]
        if steps == 0:
            empty = [
                self.ctx.array(np.zeros((0, *shape_of_type(t)), numpy_dtype(t.element_type)))
                for t in types
            ]
            self.ctx.builder.mark_texts(slices, empty)
            return [*states, *empty]
        types += [tensor((1,), i1)] * len(function.builder.checks)
        op = graph.ScanOp(step.sym_name.data, steps, states, rows, function.fixed, types)
        results = self.ctx.builder.append_steps(op, function.builder)
        self.ctx.builder.mark_texts([*states, *slices], results)
        return results


def _why(found: Sequence[TcoptError]) -> str:
    """Describe an error of a branch other than missing values, for a message."""
    wrong = next((e for e in found if not isinstance(e, MissingValuesError)), None)
    return "" if wrong is None else f", one of whose branches fails here ({wrong}),"


def _without_failures(values: list[Value]) -> list[Value]:
    if any(isinstance(value, Failed) for value in values):
        raise AlreadyReported
    return values


def _copied(value: SSAValue, outer: GraphBuilder, inner: GraphBuilder) -> SSAValue:
    """Copy a known value into the function of a loop body."""
    if isinstance(value.owner, graph.ConstantOp):
        return inner.copy_constant(value)
    known = outer.array_of(value)
    assert known is not None
    return inner.constant(known)
