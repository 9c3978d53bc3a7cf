"""Quantisation on an ALU: integers that are a non-decreasing function of sums."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tcopt.dialects.graph.core.types import Array
from tcopt.dialects.graph.elementwise.quantize import (
    DequantizeOp,
    QuantizeOp,
    QuantizerOp,
    RequantizeOp,
)
from tcopt.passes.graph.placement.alu.shifts import scaled_on_alu
from tcopt.passes.graph.placement.alu.steps import integers_on_alu
from tcopt.passes.graph.placement.alu.sums import with_function
from tcopt.passes.graph.placement.alu_chains import AluChain
from tcopt.passes.graph.placement.registers import Reals, Registers, not_on_alu, on_alu


@on_alu.rule_for(QuantizeOp)
def quantize(op: QuantizeOp, chain: AluChain) -> Registers | str:
    """Quantise real values that are a function of integers."""
    registers, numbers = chain.operand(op.x), _numbers(chain, op)
    if registers is None or registers.reals is None or numbers is None:
        return not_on_alu(op)
    scale, zero = numbers
    slopes = tuple(slope / scale for slope in registers.reals.slopes)
    made = with_function(registers, partial(_computed, op, scale, zero), registers.reals)
    assert made.reals is not None
    reals = replace(made.reals, slopes=slopes)
    return integers_on_alu(chain, reals, _whole_limits(op, zero))


@on_alu.rule_for(RequantizeOp)
def requantize(op: RequantizeOp, chain: AluChain) -> Registers | str:
    """Return a rounding shift if the scale is a power of two, else a multiplication if the ALU
    supports it."""
    scale, zero = chain.number(op.scale), chain.number(op.zero)
    found = scaled_on_alu(chain, op.x, scale, zero, op.limits, centred=op.is_centered)
    registers, numbers = chain.operand(op.x), _numbers(chain, op)
    is_there = registers is not None and numbers is not None and registers.reals is None
    if not isinstance(found, str) or not (is_there and chain.multiplies):
        return found
    assert registers is not None and numbers is not None
    factor, point = numbers
    function = partial(_computed, op, factor, point)
    reals = Reals((registers,), function, (factor,))
    return integers_on_alu(chain, reals, _whole_limits(op, point))


@on_alu.rule_for(DequantizeOp)
def dequantize(op: DequantizeOp, chain: AluChain) -> Registers | str:
    """Represent the result as real values that are a function of integers, to be requantised."""
    registers, scale, zero = chain.operand(op.x), chain.number(op.scale), chain.number(op.zero)
    is_there = registers is not None and registers.reals is None and chain.multiplies
    if not is_there or scale is None or zero is None:
        return not_on_alu(op)
    assert registers is not None
    factor, point = chain.by_channel(scale), chain.by_channel(zero)
    reals = Reals((registers,), partial(_computed, op, factor, point), (factor,))
    return replace(registers, reals=reals)


def _numbers(chain: AluChain, op: QuantizerOp) -> tuple[Array, Array] | None:
    """Return scale and zero point by channel, if they are known."""
    scale, zero = chain.number(op.scale), chain.number(op.zero)
    if scale is None or zero is None or zero.size == 0 or zero.min() != zero.max():
        return None
    return chain.by_channel(scale), zero.reshape(-1)[:1]


def _whole_limits(op: QuantizerOp, zero: Array) -> tuple[int, int]:
    """Return the minimum and maximum of the results."""
    low, high = op.limits
    point = int(zero[0]) if op.is_centered else 0
    return low - point, high - point


def _computed(op: QuantizerOp | DequantizeOp, scale: Array, zero: Array, x: Array) -> Array:
    """Evaluate an op on values whose last dimension is the channels."""
    return op.compute(x, scale, zero)
