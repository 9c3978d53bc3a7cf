"""Loops over functions that check their data."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tcopt.dialects.graph import CastOp, CompareOp, ReduceOp
from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.dialects.graph.core.types import is_sized
from tcopt.frontends.onnx.context.builder import GraphBuilder


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
