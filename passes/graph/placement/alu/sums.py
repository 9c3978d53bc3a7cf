"""Sums, comparisons and conversions of integers in registers of an ALU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import Array, element_type, is_float, numpy_dtype
from tcopt.dialects.graph.elementwise.activation import ClipOp, ReluOp
from tcopt.dialects.graph.elementwise.arithmetic import AddOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.passes.graph.placement.alu_chains import AluChain
from tcopt.passes.graph.placement.registers import Reals, Registers, not_on_alu, on_alu

MOST = (1 << 31) - 1
"""The largest 32-bit integer."""


@on_alu.rule_for(AddOp)
def add(op: AddOp, chain: AluChain) -> Registers | str:
    """Return a 32-bit sum, or a sum of real values that are functions of integers."""
    if is_float(element_type(op.lhs)):
        return _sum_of_reals(chain, op.lhs, op.rhs)
    return _sum_of_integers(chain, op.lhs, op.rhs)


@on_alu.rule_for(ReluOp)
def relu(op: ReluOp, chain: AluChain) -> Registers | str:
    """Return the maximum of a value and zero."""
    registers = chain.operand(op.x)
    if registers is None:
        return "its operand is not in registers"
    if registers.reals is not None:
        return with_function(registers, lambda x: np.maximum(x, 0), registers.reals)
    low, high = registers.limits or (-MOST - 1, MOST)
    return replace(registers, limits=(max(low, 0), max(high, 0)))


@on_alu.rule_for(ClipOp)
def clip(op: ClipOp, chain: AluChain) -> Registers | str:
    """Clamp real values that are a function of integers; clamping is non-decreasing."""
    registers = chain.operand(op.x)
    if registers is None or registers.reals is None:
        return not_on_alu(op)
    return with_function(registers, op.compute, registers.reals)


@on_alu.rule_for(CastOp)
def cast(op: CastOp, chain: AluChain) -> Registers | str:
    """Return the same integers, if the type holds them."""
    element = op.type.element_type
    registers = chain.operand(op.x)
    dtype = numpy_dtype(element)
    if registers is None or registers.reals is not None or dtype.kind not in "iu":
        return "its operand is not in registers"
    least, most = registers.limits or (-registers.bound, registers.bound)
    there = np.iinfo(dtype)
    if least < there.min or most > there.max:
        return f"some of its integers do not fit in {element}"
    return registers


@on_alu.rule_for(ReshapeOp)
def reshape(op: ReshapeOp, chain: AluChain) -> Registers | str:
    """Return the operand's registers."""
    registers = chain.operand(op.x)
    return "its operand is not in registers" if registers is None else registers


def _sum_of_integers(chain: AluChain, lhs: SSAValue, rhs: SSAValue) -> Registers | str:
    """Return a 32-bit sum; a constant addend is recorded as a pending offset."""
    if element_type(lhs) != i32:
        return "it is not a sum of 32 bits"
    for value, other in ((lhs, rhs), (rhs, lhs)):
        number = chain.number(other)
        registers = None if number is None else chain.operand(value)
        if number is not None and registers is not None:
            if registers.limits is not None:
                registers = chain.settled(registers)
            bound = registers.bound + int(np.abs(number.astype(np.int64)).max(initial=0))
            return checked(replace(registers, offset=registers.offset + number, bound=bound))
    first, second = chain.operand(lhs), chain.operand(rhs)
    if first is None or second is None:
        return "an operand is not in registers"
    first, second = (chain.settled(x) if x.limits is not None else x for x in (first, second))
    total = chain.add(AddOp(first.value, second.value))
    offset, bound = first.offset + second.offset, first.bound + second.bound
    return checked(Registers(total, offset, bound))


def with_function(registers: Registers, then: Callable[[Array], Array], reals: Reals) -> Registers:
    """Apply a non-decreasing function to the real values that registers represent."""
    made = Reals(reals.terms, lambda *x: then(reals.function(*x)), reals.slopes)
    return replace(registers, reals=made)


def _sum_of_reals(chain: AluChain, lhs: SSAValue, rhs: SSAValue) -> Registers | str:
    """Return a sum of floats that are functions of integers."""
    for value, other in ((lhs, rhs), (rhs, lhs)):
        number = chain.number(other)
        registers = None if number is None else chain.operand(value)
        if number is not None and registers is not None and registers.reals is not None:
            reals, more = registers.reals, chain.by_channel(number)
            return with_function(registers, partial(np.add, more), reals)
    first, second = chain.operand(lhs), chain.operand(rhs)
    if first is None or second is None or first.reals is None or second.reals is None:
        return "an operand is not in registers"
    a, b = first.reals, second.reals
    count = len(a.terms)

    def function(*x: Array) -> Array:
        return a.function(*x[:count]) + b.function(*x[count:])

    both = Reals((*a.terms, *b.terms), function, (*a.slopes, *b.slopes))
    return replace(first, reals=both)


def checked(registers: Registers) -> Registers | str:
    """Return the registers if their bound fits in 32 bits; otherwise the reason why they are
    rejected."""
    return registers if registers.bound <= MOST else "sums may exceed 32 bits"
