"""Number of ops that a function executes, and the time limit of a run derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, SymbolRefAttr
from xdsl.ir import Operation, SSAValue

from tcopt.dialects import loop
from tcopt.dialects.gpu_kernels import BLOCK_SIZE, GRID_SIZE, KERNEL, sizes_of

SLACK = 5.0
"""Processor time in seconds granted to every run, such as for starting threads."""

TIMES = 10.0
"""Factor between the expected and the longest accepted time."""

UNKNOWN_WORK = 120.0
"""Limit in seconds of a first run whose number of ops is unknown."""


@dataclass(frozen=True)
class Rate:
    """Execution rate in ops per second, a conservative estimate."""

    ops_per_second: float


PLAIN = Rate(1e7)
"""Rate of the plain translation, with stores of parallel loops traced."""

MACHINE_CODE = Rate(1e8)

PTX = Rate(1e7)
"""Interpreted PTX, with accesses checked."""


def time_limit(work: int | None, rate: Rate, before: float | None, fixed: float | None) -> float:
    """Return the time limit of a run in seconds.

    Args:
        work: number of ops, None if unknown.
        before: duration of the last run, which is used if the work is unknown.
        fixed: the user's limit, which overrides the estimate.
    """
    if fixed is not None:
        return fixed
    if work is not None:
        return SLACK + TIMES * work / rate.ops_per_second
    return UNKNOWN_WORK if before is None else SLACK + TIMES * before


def work_of(op: Operation, functions: Mapping[str, Operation]) -> int | None:
    """Return an upper bound of the number of ops executed by `op`; None if a trip count is unknown.

    Those of a function that is launched on a grid are of all threads.

    Args:
        functions: possible callees, by name.
    """
    total = 1
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                work = work_of(inner, functions)
                if work is None:
                    return None
                total += work
    if isinstance(callee := op.properties.get("callee"), SymbolRefAttr):
        function = functions.get(callee.string_value())
        work = None if function is None else work_of(function, functions)
        return work and total + work
    trips = _trip_count(op)
    return None if trips is None else total * trips


def thread_count(function: Operation) -> int:
    """The number of threads of a launch; 1 for a function that is not launched on a grid."""
    if KERNEL not in function.attributes:
        return 1
    return prod((*sizes_of(function, GRID_SIZE), *sizes_of(function, BLOCK_SIZE)))


def _trip_count(op: Operation) -> int | None:
    match op:
        case loop.ForOp():
            return op.trip_count
        case scf.ForOp():
            return _steps(op.lb, op.ub, op.step)
        case scf.ParallelOp():
            bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
            counts = [_steps(*each) for each in bounds]
            return None if None in counts else prod(each or 0 for each in counts)
        case func.FuncOp():
            return thread_count(op)
        case scf.WhileOp():
            return None
        case _:
            return 1


def _steps(lower: SSAValue, upper: SSAValue, step: SSAValue) -> int | None:
    low, high, stride = _constant(lower), _upper_bound(upper), _constant(step)
    if high is None or not stride:
        return None
    # An unknown start is an induction variable or an offset, which are non-negative.
    return max(ceil((high - (low or 0)) / stride), 0)


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def _upper_bound(value: SSAValue) -> int | None:
    """Return the value of a constant, or the smallest known operand of a minimum."""
    owner = value.owner
    if isinstance(owner, arith.MinSIOp | arith.MinUIOp):
        known = [each for each in map(_upper_bound, owner.operands) if each is not None]
        return min(known, default=None)
    return _constant(value)
