"""Loop, as a scan over a function, or unrolled.

A loop whose iterations have equal types becomes a `graph.scan` over a function. Loops that are
short, whose values change their shapes, or that end by a condition, are unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, ValueInfoProto
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import as_extent, shape_of
from tcopt.frontends.onnx.context.builder import names_of
from tcopt.frontends.onnx.model.errors import MissingValuesError, OpenSizeError
from tcopt.frontends.onnx.model.types import declared_dtype
from tcopt.frontends.onnx.model.values import DEFERRED, Deferred, Value, Values
from tcopt.frontends.onnx.nodes.bodies import Bodies
from tcopt.frontends.onnx.nodes.ended_scans import EndedScan, LoopEnd
from tcopt.support.arithmetic.sizes import maximum, upper_bound
from tcopt.support.errors import UnsupportedError

_UNROLLED_STEPS = 16
"""Maximum trip count of loops that are always unrolled, which makes more shapes known."""


class LoopBodies(Bodies):
    """The body of a Loop."""

    def run(self, operands: Values) -> Values:
        count, condition, *states = [*operands, *[None] * (2 - len(operands))]
        body = self.body("body", 2 + len(states))
        self.ctx.check(
            len(body.output) >= 1 + len(states), "its body returns fewer values than it takes"
        )
        end = self._end(count, condition)
        if end.is_counted and not end.has_sizes and (end.steps or 0) <= _UNROLLED_STEPS:
            return self._short(body, end, states)
        results = self._loop_as_scan(body, end, states)
        if results is None and end.has_sizes and isinstance(count, SSAValue):
            # The program computes the maximum number of iterations.
            computed = LoopEnd(None, count, end.condition, upper_bound(end.steps or 0))
            results = self._loop_as_scan(body, computed, states)
        if results is not None:
            return results
        if end.has_sizes:
            message = "Loop has to be unrolled, as it may end early or its values change their type"
            raise OpenSizeError(message, names_of([end.steps or 0]))
        steps = None if count is None else self.decided(count, "the number of steps of Loop")
        if condition is not None and not self.decided(condition, "the condition of Loop"):
            steps = 0
        return self._unrolled(body, steps, states)

    def _end(self, count: Value, condition: Value) -> LoopEnd:
        """Return what ends the loop."""
        steps: int | None = None
        limit = first = None
        sizes = self.ctx.builder.sizes.get(count) if isinstance(count, SSAValue) else None
        if sizes is not None and sizes.size == 1:
            steps = as_extent(maximum(sizes.flat[0], 0))
        elif count is not None:
            steps = self._number(count, "the number of steps of Loop")
            if steps is None or steps > self.ctx.builder.limits.made_elements:
                assert isinstance(count, SSAValue)
                steps, limit = None, count
        if condition is not None:
            holds = self._number(condition, "the condition of Loop")
            if holds is None:
                assert isinstance(condition, SSAValue)
                first = condition
            elif not holds:
                steps = 0
        return LoopEnd(steps, limit, first)

    def _number(self, value: Value, what: str) -> int | None:
        """Return a known number; None if the program computes it."""
        try:
            return self.decided(value, what)
        except MissingValuesError:
            if self.ctx.builder.defines:
                return None
            raise

    def _short(self, body: GraphProto, end: LoopEnd, states: Values) -> Values:
        """Unroll a loop of a few iterations, unless data decides which of them is the last."""
        builder = self.ctx.builder
        functions, checks = len(builder.functions), len(builder.checks)
        try:
            return self._unrolled(body, end.steps, states)
        except MissingValuesError:
            ended = builder.functions[functions:], builder.checks[checks:]
            del builder.functions[functions:], builder.checks[checks:]
            builder.depth = self.depth
            results = self._loop_as_scan(body, end, states)
            if results is not None:
                return results
            builder.functions += ended[0]
            builder.checks += ended[1]
            raise

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
            results = self.imported(body, [number, yes, *current], self.scope, f"step {step}")
            goes_on, *rest = results
            current = rest[: len(states)]
            if isinstance(goes_on, Deferred):
                return [DEFERRED] * (len(results) - 1)
            for column, value in zip(collected, rest[len(states) :], strict=True):
                column.append(self._row(value))
            step += 1
            if not self.decided(goes_on, f"the condition of Loop after step {step}"):
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
        return self.ctx.moved(value, graph.ReshapeOp(value, (1, *shape_of(value))))

    def _joined(self, info: ValueInfoProto, rows: Sequence[Value]) -> Value:
        """Concatenate the rows of a loop; without rows, return an empty tensor."""
        tensors = [row for row in rows if isinstance(row, SSAValue)]
        if len(tensors) < len(rows):
            return DEFERRED
        if tensors:
            return self.ctx.moved(tensors[0], graph.ConcatOp(tensors, axis=0))
        declared = info.type.tensor_type
        shape = [max(dim.dim_value, 0) for dim in declared.shape.dim]
        dtype = declared_dtype(declared.elem_type, self.ctx.where)
        return self.ctx.array(np.zeros((0, *shape), dtype))

    def _loop_as_scan(self, body: GraphProto, end: LoopEnd, states: Values) -> Values | None:
        """Import the loop as a scan; None if its values change their types, or if the results of
        its iterations cannot be bounded."""
        values = [state for state in states if isinstance(state, SSAValue)]
        if len(values) < len(states):
            return None
        outer = self.ctx.builder
        scan = EndedScan(self.ctx, end, values)
        with self.function(scan.states, scan.rows, body, scan.limits) as function:
            scan.enter(function)
            inputs = [scan.number, self.ctx.array(np.array(True)), *scan.carried]
            try:
                results = self.imported(body, inputs, function.scope, "step")
            except MissingValuesError:
                # Unrolled iterations may have different shapes.
                function.drop()
                return None
            outputs = [value for value in results if isinstance(value, SSAValue)]
            alike = len(outputs) == len(results) and all(
                new.type == old.type for new, old in zip(outputs[1:], values, strict=False)
            )
            known = self.known(results[0])
            slices = outputs[1 + len(values) :]
            is_plain = end.is_counted and known is not None
            if is_plain:
                alike = alike and known is not None and bool(known.all())
            elif slices:
                # Their number is only known when the program has run.
                alike = alike and outer.may_bound and not end.has_sizes
            never_ends = known is not None and bool(known.all()) and end.is_unlimited
            if not alike or never_ends or not (is_plain or outer.defines):
                function.drop()
                return None
            step = scan.plain_step(outputs) if is_plain else scan.step(outputs)
        if is_plain:
            assert end.steps is not None
            return self.applied(step, end.steps, values, scan.rows, function, slices)
        outer.depth = self.depth
        return scan.apply(step, slices)
