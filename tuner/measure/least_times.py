"""Times that no code beats on this machine: who is faster has left something out."""

from __future__ import annotations

from functools import cache
from math import prod

from xdsl.dialects.arith import MulfOp
from xdsl.dialects.builtin import Float32Type

from tcopt.backends.llvm.limits import copy_gbps, peak_gflops
from tcopt.compiler.passes import shared_context
from tcopt.dialects import te
from tcopt.support.parsing import TextParser
from tcopt.tuner.arguments import OUTPUT
from tcopt.tuner.tasks import Task

_HOST_KIND = "cpu"


def least_ns(task: Task, threads: int) -> float:
    """Nanoseconds that a kernel takes at least: for its products of f32, and to write its results.

    0 for what does not run on this machine's CPU, whose limits are not measured.
    """
    if task.kind != _HOST_KIND:
        return 0.0
    written = sum(a.size for a in task.arguments if a.role == OUTPUT)
    flops = 2 * products(task.text)
    # Copies read as many bytes as they write, so this is less than half of what writing takes.
    least = written / _bandwidth(_size_class(2 * written), threads)
    return max(least, flops / _peak(threads))


def products(text: str) -> int:
    """Multiply-adds of f32 in the sums of a task, each of which has to be computed.

    None are counted where reads have a default, as sums may leave out what is multiplied by it.
    """
    module = TextParser(shared_context(), text).parse_module()
    count = 0
    if any(isinstance(op, te.ReadOp) and op.default is not None for op in module.walk()):
        return 0
    for op in module.walk():
        if isinstance(op, te.ComputeOp) and op.is_reduction and _adds_products(op):
            count += prod(op.all_extents)
    return count


def _adds_products(stage: te.ComputeOp) -> bool:
    value = stage.yielded.owner
    if not isinstance(value, MulfOp) or not isinstance(value.result.type, Float32Type):
        return False
    return all(isinstance(v.owner, te.ReadOp) for v in value.operands)


def _size_class(size: int) -> int:
    """The power of two above, so that few sizes are measured."""
    return 1 << max(size - 1, 1 << 12).bit_length()


@cache
def _peak(threads: int) -> float:
    return peak_gflops(threads)


@cache
def _bandwidth(size: int, threads: int) -> float:
    return copy_gbps(size, threads)
