"""Loops over functions, which may check their data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import SSAValue

from tcopt.dialects.graph import CastOp, CompareOp, ReduceOp
from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    is_sized,
    shape_of,
    shape_of_type,
    tensor,
    type_of,
)
from tcopt.frontends.onnx.context.builder import GraphBuilder
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.support.arithmetic.sizes import Extent

Body = Callable[[NodeContext, list[SSAValue]], list[SSAValue]]


def scan(
    ctx: NodeContext,
    body: Body,
    steps: Extent,
    states: Sequence[SSAValue],
    scanned: Sequence[SSAValue],
    fixed: Sequence[SSAValue],
    slices: Sequence[AnyTensor],
    *,
    reverse: bool = False,
) -> list[SSAValue]:
    """Add a loop over time (see `graph.ScanOp`), whose body is written by `body`.

    Args:
        body: receives a context for new ops, and the states, slices of `scanned`, and `fixed`
            values of an iteration. It returns the next states and slices of the results.
        slices: types of the slices that `body` returns.
    """
    if steps == 0:
        return [*states, *(ctx.zeros((0, *shape_of_type(t)), t.element_type) for t in slices)]
    rows = [tensor(shape_of(v)[1:], type_of(v).element_type) for v in scanned]
    passed = [v for v in fixed if ctx.known(v) is None]
    types = [*(v.type for v in states), *rows, *(v.type for v in passed)]
    builder = ctx.builder.function(f"{ctx.op_type.lower()}_step", types)
    arguments = list(builder.block.args)
    moving = len(states) + len(scanned)
    seen = dict(zip(passed, arguments[moving:], strict=True))
    values = [seen[v] if v in seen else builder.copy_constant(v) for v in fixed]
    results = body(ctx.in_function(builder), [*arguments[:moving], *values])
    function = builder.finish([*results, *(refused for _, refused in builder.checks)])
    name = function.sym_name.data
    checks = [tensor((1,), i1)] * len(builder.checks)
    op = ScanOp(name, steps, states, scanned, passed, [*slices, *checks], reverse=reverse)
    return append_steps(ctx.builder, op, builder)


def append_steps(builder: GraphBuilder, op: ScanOp, inner: GraphBuilder) -> list[SSAValue]:
    """Append a loop over the function written by `inner`, whose last results are its checks."""
    results = builder.append(op)
    count = len(results) - len(inner.checks)
    for (message, _), refused in zip(inner.checks, results[count:], strict=True):
        builder.checks.append((message, _any_step(builder, refused)))
    return results[:count]


def _any_step(builder: GraphBuilder, refused: SSAValue) -> SSAValue:
    """Return the checks of all steps; one if the number of steps is a size."""
    if not is_sized(refused):
        return refused
    numbers = builder.emit(CastOp(refused, i32))
    greatest = builder.emit(ReduceOp(numbers, kind="max", axes=[0]))
    zero = builder.constant(np.zeros(1, np.int32))
    return builder.emit(CompareOp(greatest, zero, predicate="gt"))
