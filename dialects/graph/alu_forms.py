"""Lowering of integer operators to an ALU, by 32-bit sums, comparisons and shifts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.interfaces.placement import Alu, Reals, Registers
from tcopt.dialects.graph.types import Array, element_type, numpy_dtype

MOST = (1 << 31) - 1
"""The largest 32-bit integer."""


def sum_on_alu(
    alu: Alu, lhs: SSAValue, rhs: SSAValue, add: Callable[[SSAValue, SSAValue], GraphOp]
) -> Registers | str:
    """Return a 32-bit sum; a constant addend is recorded as a pending offset.

    Args:
        add: builds the operator.
    """
    if element_type(lhs) != i32:
        return "it is not a sum of 32 bits"
    for value, other in ((lhs, rhs), (rhs, lhs)):
        number = alu.number(other)
        registers = None if number is None else alu.operand(value)
        if number is not None and registers is not None:
            if registers.limits is not None:
                registers = alu.settled(registers)
            bound = registers.bound + int(np.abs(number.astype(np.int64)).max(initial=0))
            return checked(replace(registers, offset=registers.offset + number, bound=bound))
    first, second = alu.operand(lhs), alu.operand(rhs)
    if first is None or second is None:
        return "an operand is not in registers"
    first, second = (alu.settled(x) if x.limits is not None else x for x in (first, second))
    total = alu.add(add(first.value, second.value))
    offset, bound = first.offset + second.offset, first.bound + second.bound
    return checked(Registers(total, offset, bound))


def at_least_zero_on_alu(alu: Alu, x: SSAValue) -> Registers | str:
    """Return the maximum of a value and zero."""
    registers = alu.operand(x)
    if registers is None:
        return "its operand is not in registers"
    if registers.reals is not None:
        return with_function(registers, lambda x: np.maximum(x, 0), registers.reals)
    low, high = registers.limits or (-MOST - 1, MOST)
    return replace(registers, limits=(max(low, 0), max(high, 0)))


def cast_on_alu(alu: Alu, x: SSAValue, element: Attribute) -> Registers | str:
    """Return the same integers, if the type holds them."""
    registers = alu.operand(x)
    dtype = numpy_dtype(element)
    if registers is None or registers.reals is not None or dtype.kind not in "iu":
        return "its operand is not in registers"
    least, most = registers.limits or (-registers.bound, registers.bound)
    there = np.iinfo(dtype)
    if least < there.min or most > there.max:
        return f"some of its integers do not fit in {element}"
    return registers


def with_function(registers: Registers, then: Callable[[Array], Array], reals: Reals) -> Registers:
    """Apply a non-decreasing function to the real values that registers represent."""
    made = Reals(reals.terms, lambda *x: then(reals.function(*x)), reals.slopes)
    return replace(registers, reals=made)


def sum_of_reals(alu: Alu, lhs: SSAValue, rhs: SSAValue) -> Registers | str:
    """Return a sum of floats that are functions of integers."""
    for value, other in ((lhs, rhs), (rhs, lhs)):
        number = alu.number(other)
        registers = None if number is None else alu.operand(value)
        if number is not None and registers is not None and registers.reals is not None:
            reals, more = registers.reals, alu.by_channel(number)
            return with_function(registers, partial(np.add, more), reals)
    first, second = alu.operand(lhs), alu.operand(rhs)
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
