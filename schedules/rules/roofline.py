"""Roofline of a function, and the addresses that its scheduled loops access.

The lower bound of a function's time is that of its operations on all cores, or of moving each byte
of its arguments once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.ir import SSAValue

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import buffer_bits, element_bits
from tcopt.schedules.rules.operands import BYTE
from tcopt.schedules.state.state import blocks_under, buffers_read, buffers_written
from tcopt.support.machines.machine import Machine, kernel_cycles


def limit_cycles(
    function: loop.FuncOp,
    machine: Machine,
    operations: Callable[[loop.BlockOp], float],
    *,
    starts: int = 0,
) -> float:
    """Return the lower bound of a function's time.

    Args:
        operations: returns the operations of one run of a block's body, in f32 multiply-adds.
        starts: number of launches or parallel regions.
    """
    compute, moved = 0.0, dict[SSAValue, int]()
    for block in blocks_under(function):
        count = prod(block.domain)
        compute += count * operations(block)
        for buffer in {*buffers_read(block), *buffers_written(block)}:
            if buffer in function.body.block.args:
                used = min(count * element_bits(block), buffer_bits(buffer)) // BYTE
                moved[buffer] = max(moved.get(buffer, 0), used)
    return kernel_cycles(machine, compute, sum(moved.values()), cores=machine.cores, starts=starts)


def block_variables(
    block: loop.BlockOp, moved: loop.ForOp | None = None, iteration: int = 1
) -> dict[SSAValue, int]:
    """Return a block's variables at the first iteration of all loops around it, except one.

    Args:
        moved: the loop at another iteration.
    """
    value = None if moved is None else moved.induction_variable
    operands = [iteration if operand is value else 0 for operand in block.operands_]
    bindings = block.bindings.data.results
    return {v: e.eval(operands, []) for v, e in zip(block.iter_vars, bindings, strict=True)}


def address(op: loop.LoadOp | loop.StoreOp, variables: dict[SSAValue, int]) -> int:
    """Return the position of the accessed element in its buffer; computed indices count as 0."""
    indices = [variables.get(value, 0) for value in op.indices]
    total = 0
    for extent, expr in zip(buffer_shape(op.memref), op.map.data.results, strict=True):
        total = total * extent + expr.eval(indices, [])
    return total
