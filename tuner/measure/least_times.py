"""Lower bounds of kernel times on this machine: faster code must have skipped work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod

from xdsl.dialects.arith import MulfOp
from xdsl.dialects.builtin import Float32Type

from tcopt.backends.llvm.limits import copy_gbps, peak_gflops
from tcopt.backends.llvm.machine.host import default_target
from tcopt.compiler.passes import shared_context
from tcopt.dialects import te
from tcopt.support.arithmetic.sizes import lower_bound
from tcopt.support.syntax.parsing import TextParser
from tcopt.tuner.arguments import OUTPUT
from tcopt.tuner.measure.workload import Workload
from tcopt.tuner.tasks import Task

_HOST_KIND = "cpu"
_WEIGHTS_OF_L2 = 1.5
_DEFAULT_L2 = 1 << 20


@dataclass(frozen=True)
class Amounts:
    """Minimum work of a kernel.

    Attributes:
        products: multiply-adds of f32; `written`: bytes of its results.
    """

    products: int
    written: int


def amounts_of(task: Task) -> Amounts:
    """Return the work of a task that no schedule can avoid."""
    written = sum(a.size for a in task.arguments if a.role == OUTPUT)
    return Amounts(products(task.text), written)


def on_this_machine(workload: Workload, amounts: Amounts, kind: str, threads: int) -> Workload:
    """Return a workload with this machine's cache size and lower bound of its time.

    Args:
        kind: of the target; only CPUs' limits are measured.
    """
    l2 = default_target().l2 or _DEFAULT_L2
    least = least_ns(amounts, threads) if kind == _HOST_KIND else 0.0
    return replace(workload, weight_bytes=int(_WEIGHTS_OF_L2 * l2), least_ns=least)


def least_ns(amounts: Amounts, threads: int) -> float:
    """Return the minimum nanoseconds for an amount of work on this machine, from cached limits."""
    size = _size_class(2 * amounts.written)
    return _least_ns(amounts, _bandwidth(size, threads), _peak(threads))


def measured_again(amounts: Amounts, kind: str, threads: int) -> float:
    """Return the minimum nanoseconds from limits measured now, as the machine may have been busy
    before.

    Args:
        kind: of the target; only CPUs' limits are measured.
    """
    if kind != _HOST_KIND:
        return 0.0
    size = _size_class(2 * amounts.written)
    return _least_ns(amounts, copy_gbps(size, threads), peak_gflops(threads))


def _least_ns(amounts: Amounts, gbps: float, gflops: float) -> float:
    # Copies read as much as they write, so this is less than half of the actual write time.
    return max(amounts.written / gbps, 2 * amounts.products / gflops)


def products(text: str) -> int:
    """Count the f32 multiply-adds in the contractions of a task, which every schedule must compute.

    The count is 0 if reads have a default, because terms multiplied by it may be skipped.
    """
    module = TextParser(shared_context(), text).parse_module()
    count = 0
    if any(isinstance(op, te.ReadOp) and op.default is not None for op in module.walk()):
        return 0
    for op in module.walk():
        if isinstance(op, te.ComputeOp) and op.is_reduction and _adds_products(op):
            count += prod(map(lower_bound, op.all_extents))
    return count


def _adds_products(stage: te.ComputeOp) -> bool:
    value = stage.yielded.owner
    if not isinstance(value, MulfOp) or not isinstance(value.result.type, Float32Type):
        return False
    return all(isinstance(v.owner, te.ReadOp) for v in value.operands)


def _size_class(size: int) -> int:
    """Round a size up to a power of two, so that few sizes are measured."""
    return 1 << max(size - 1, 1 << 12).bit_length()


@cache
def _peak(threads: int) -> float:
    return peak_gflops(threads)


@cache
def _bandwidth(size: int, threads: int) -> float:
    return copy_gbps(size, threads)
