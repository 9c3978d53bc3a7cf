"""Loops that data may end, as scans with a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import tensor, type_of
from tcopt.frontends.onnx.context.builder import names_of
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.nodes.step_function import StepFunction

_UNLIMITED = 2**62
"""Trip count of loops without one, which keep no results of their iterations."""


@dataclass(frozen=True)
class LoopEnd:
    """Conditions under which a loop ends.

    Attributes:
        steps: maximum number of iterations, which may be a size; None if it is unknown or
            unlimited.
        limit: maximum number of iterations if the program computes it.
        condition: whether the first iteration runs if the program computes it.
        most: upper bound of `limit`; None if it is unknown.
    """

    steps: int | None
    limit: SSAValue | None
    condition: SSAValue | None
    most: int | None = None

    @property
    def is_counted(self) -> bool:
        """Whether only the loop body can end the loop before `steps` iterations."""
        return self.steps is not None and self.condition is None

    @property
    def is_unlimited(self) -> bool:
        """Whether only the loop body can end the loop."""
        return self.steps is None and self.limit is None and self.condition is None

    @property
    def has_sizes(self) -> bool:
        """Whether the maximum number of iterations is a size."""
        return self.steps is not None and bool(names_of([self.steps]))


class EndedScan:
    """A scan for a loop; its first state is the condition, and the second may be a counter.

    Attributes:
        states: initial values of the states.
        rows: the number of each iteration, if their maximum number is known.
        limits: the maximum number of iterations, if the program computes it.
    """

    def __init__(self, ctx: NodeContext, end: LoopEnd, values: Sequence[SSAValue]):
        self.ctx = ctx
        self.end = end
        self.rows = [] if end.steps is None else [ctx.positions(end.steps)]
        self.limits = [] if end.limit is None else [end.limit]
        self.counter = [] if self.rows else [ctx.array(np.array(0, np.int64))]
        self.states = [self._first_condition(), *self.counter, *values]

    def _first_condition(self) -> SSAValue:
        """Return whether the first iteration runs."""
        end, ctx = self.end, self.ctx
        holds = ctx.array(np.array(True))
        if end.condition is not None:
            holds = ctx.emit(graph.ReshapeOp(end.condition, ()))
        if end.limit is not None:
            limit = ctx.emit(graph.ReshapeOp(end.limit, ()))
            some = ctx.emit(graph.CompareOp(ctx.literal(0, limit), limit, predicate="lt"))
            holds = ctx.emit(graph.AndOp(holds, some))
        return holds

    def enter(self, function: StepFunction) -> None:
        """Start the function for an iteration; the context appends to its body from now on."""
        self.function = function
        arguments, count = function.arguments, len(self.states)
        self.number = arguments[1] if self.counter else arguments[count]
        self.carried = arguments[1 + len(self.counter) : count]
        # Computed limits are among the fixed values.
        moving = count + len(self.rows)
        self.limit = [arguments[moving + function.fixed.index(value)] for value in self.limits]

    def plain_step(self, outputs: Sequence[SSAValue]) -> FuncOp:
        """Complete the function of a loop that does not end early."""
        block = self.function.builder.block
        block.erase_arg(block.args[0])
        return self.function.finish(outputs[1:])

    def step(self, outputs: Sequence[SSAValue]) -> FuncOp:
        """Complete the function, given the condition, new values and slices of an iteration."""
        ctx, block, count = self.ctx, self.function.builder.block, len(self.carried)
        goes_on = ctx.emit(graph.ReshapeOp(outputs[0], ()))
        following: list[SSAValue] = []
        if self.counter:
            following.append(ctx.emit(graph.AddOp(self.number, ctx.literal(1, self.number))))
        for limit in self.limit:
            below = ctx.emit(graph.ReshapeOp(limit, ()))
            more = ctx.emit(graph.CompareOp(following[0], below, predicate="lt"))
            goes_on = ctx.emit(graph.AndOp(goes_on, more))
        # Checks of iterations that do not run are undefined, so a state keeps that one failed.
        failed: list[SSAValue] = []
        for _, refused in self.function.builder.checks:
            place = len(self.states) + len(failed)
            earlier = block.insert_arg(tensor((1,), i1), place)
            failed.append(ctx.emit(graph.OrOp(earlier, refused)))
        states = [goes_on, *following, *outputs[1 : 1 + count], *failed]
        return self.function.builder.finish([*states, *outputs[1 + count :]])

    def apply(self, step: FuncOp, slices: Sequence[SSAValue]) -> list[SSAValue]:
        """Add the loop; return its final values and the results of its iterations.

        The results have room for the maximum number of iterations. If it is not known, a check
        fails when a run needs more room.
        """
        ctx, checks = self.ctx, self.function.builder.checks
        steps, most = self.end.steps, self.end.most
        room = ctx.builder.limits.loop_steps if most is None else most
        trip = steps if steps is not None else room if slices else _UNLIMITED
        fine = [ctx.array(np.array([False]))] * len(checks)
        op = graph.ScanOp(
            step.sym_name.data,
            trip,
            [*self.states, *fine],
            self.rows,
            self.function.fixed,
            [type_of(value) for value in slices],
            conditional=True,
        )
        results = ctx.builder.append(op)
        start, end = len(self.states), len(self.states) + len(checks)
        values, columns = results[1 + len(self.counter) : start], results[end:-1]
        ctx.builder.mark_texts([*self.carried, *slices], [*values, *columns])
        messages = (message for message, _ in checks)
        ctx.builder.checks += zip(messages, results[start:end], strict=True)
        if slices and steps is None and most is None:
            refused = ctx.emit(graph.ReshapeOp(results[0], (1,)))
            message = f"Loop: more than {room} iterations, the limit loop-steps (at {ctx.where})"
            ctx.builder.checks.append((message, refused))
        count = ctx.emit(graph.ReshapeOp(results[-1], (1,)))
        return [*values, *(ctx.bounded(column, 0, count) for column in columns)]
