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
from tcopt.frontends.onnx.model.values import (
    DEFERRED,
    Deferred,
    Value,
    Values,
)
from tcopt.frontends.onnx.nodes.bodies import Bodies
from tcopt.support.arithmetic.sizes import is_fixed, maximum
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
        steps: int | None = None
        if count is not None:
            steps = self._trip_count(count)
        if condition is not None and not self.decided(condition, "the condition of Loop"):
            steps = 0
        names = [] if steps is None else names_of([steps])
        if steps is not None and (names or steps > _UNROLLED_STEPS):
            results = self._loop_as_scan(body, steps, states)
            if results is not None:
                return results
        if names:
            message = "Loop has to be unrolled, as it may end early or its values change their type"
            raise OpenSizeError(message, names)
        return self._unrolled(body, steps, states)

    def _trip_count(self, count: Value) -> int:
        """Return the trip count of a loop, which may be a size."""
        sizes = self.ctx.builder.sizes.get(count) if isinstance(count, SSAValue) else None
        if sizes is None or sizes.size != 1:
            return self.decided(count, "the number of steps of Loop")
        return as_extent(maximum(sizes.flat[0], 0))

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
        return self.moved(value, graph.ReshapeOp(value, (1, *shape_of(value))))

    def _joined(self, info: ValueInfoProto, rows: Sequence[Value]) -> Value:
        """Concatenate the rows of a loop; without rows, return an empty tensor."""
        tensors = [row for row in rows if isinstance(row, SSAValue)]
        if len(tensors) < len(rows):
            return DEFERRED
        if tensors:
            return self.moved(tensors[0], graph.ConcatOp(tensors, axis=0))
        declared = info.type.tensor_type
        shape = [max(dim.dim_value, 0) for dim in declared.shape.dim]
        dtype = declared_dtype(declared.elem_type, self.ctx.where)
        return self.ctx.array(np.zeros((0, *shape), dtype))

    def _loop_as_scan(self, body: GraphProto, steps: int, states: Values) -> Values | None:
        """Import the loop as a scan; None if types vary or the condition may change."""
        values = [state for state in states if isinstance(state, SSAValue)]
        if len(values) < len(states):
            return None
        if is_fixed([steps]):
            self.ctx.builder.check_made(steps)
        number = self.ctx.positions(steps)
        count = len(values)
        with self.function(values, [number], body) as function:
            arguments = function.arguments
            yes = self.ctx.array(np.array(True))
            inputs = [arguments[count], yes, *arguments[:count]]
            try:
                results = self.imported(body, inputs, function.scope, "step")
            except MissingValuesError:
                # Unrolled iterations may have different shapes.
                function.drop()
                return None
            goes_on = self.known(results[0])
            outputs = [value for value in results[1:] if isinstance(value, SSAValue)]
            alike = len(outputs) == len(results) - 1 and all(
                new.type == old.type for new, old in zip(outputs, values, strict=False)
            )
            if goes_on is None or not goes_on.all() or not alike:
                function.drop()
                return None
            step = function.finish(outputs)
        return self.applied(step, steps, values, [number], function, outputs[count:])
