"""Estimated cost of code, in machine instructions."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import func, scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

_UNKNOWN_TRIPS = 16
_CALL_WORK = 20_000


def estimated_work(ops: Iterable[Operation], unknown: int = _UNKNOWN_TRIPS) -> int:
    """Estimate the number of machine instructions that a list of ops executes.

    Args:
        unknown: trip count to assume for loops with unknown bounds.
    """
    return sum(_op_work(op, unknown) for op in ops)


def _op_work(op: Operation, unknown: int) -> int:
    kind = type(op)
    if kind is ConstantOp:
        return 0
    if not op.regions:
        return _CALL_WORK if kind is func.CallOp else 1
    inside = sum(estimated_work(b.ops, unknown) for region in op.regions for b in region.blocks)
    if isinstance(op, scf.ForOp):
        return inside * _trips([(op.lb, op.ub, op.step)], unknown)
    if isinstance(op, scf.ParallelOp):
        bounds = list(zip(op.lowerBound, op.upperBound, op.step, strict=True))
        return inside * _trips(bounds, unknown)
    if isinstance(op, scf.WhileOp):
        return inside * unknown
    return 1 + inside


def _trips(bounds: list[tuple[SSAValue, SSAValue, SSAValue]], unknown: int) -> int:
    total = 1
    for lower, upper, step in bounds:
        low, high, by = (_constant(v) for v in (lower, upper, step))
        if low is None or high is None or not by:
            total *= unknown
        else:
            total *= max(0, -(-(high - low) // by))
    return total


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None
