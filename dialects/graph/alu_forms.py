"""Operators on integers as an alu computes them: by sums, comparisons and shifts of 32 bits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects.graph.interfaces.placement import Alu, Registers
from tcopt.dialects.graph.types import element_type, numpy_dtype

if TYPE_CHECKING:
    from tcopt.dialects.graph.quantize import RequantizeOp

_MOST = (1 << 31) - 1
_EXACT = 1 << 24
"""Floats of 32 bits hold all integers up to here."""


def sum_on_alu(alu: Alu, lhs: SSAValue, rhs: SSAValue) -> Registers | str:
    """A sum of 32 bits; what is added is kept apart as long as it is a constant."""
    from tcopt.dialects.graph.binary import AddOp

    if element_type(lhs) != i32:
        return "it is no sum of 32 bits"
    for value, other in ((lhs, rhs), (rhs, lhs)):
        number = alu.number(other)
        registers = None if number is None else alu.operand(value)
        if number is not None and registers is not None:
            if registers.limits is not None:
                registers = alu.settled(registers)
            bound = registers.bound + int(np.abs(number.astype(np.int64)).max(initial=0))
            return _checked(replace(registers, offset=registers.offset + number, bound=bound))
    first, second = alu.operand(lhs), alu.operand(rhs)
    if first is None or second is None:
        return "an operand is not in registers"
    first, second = (alu.settled(x) if x.limits is not None else x for x in (first, second))
    total = alu.add(AddOp(first.value, second.value))
    offset, bound = first.offset + second.offset, first.bound + second.bound
    return _checked(Registers(total, offset, bound))


def at_least_zero_on_alu(alu: Alu, x: SSAValue) -> Registers | str:
    """What is not below zero."""
    registers = alu.operand(x)
    if registers is None:
        return "its operand is not in registers"
    low, high = registers.limits or (-_MOST - 1, _MOST)
    return replace(registers, limits=(max(low, 0), max(high, 0)))


def cast_on_alu(alu: Alu, x: SSAValue, element: Attribute) -> Registers | str:
    """The same integers, where the narrower type holds them."""
    registers = alu.operand(x)
    dtype = numpy_dtype(element)
    if registers is None or dtype.kind not in "iu":
        return "its operand is not in registers"
    least, most = registers.limits or (-registers.bound, registers.bound)
    there = np.iinfo(dtype)
    if least < there.min or most > there.max:
        return f"not all of its integers are {element}"
    return registers


def shifted_on_alu(alu: Alu, x: SSAValue, places: SSAValue) -> Registers | str:
    """Shifted to the left, by one number of places, where nothing is lost."""
    registers, count = alu.operand(x), alu.number(places)
    wide = element_type(x) == i32
    if registers is None or count is None or count.size != 1 or not wide:
        return "its operand is not in registers, or it shifts by several numbers"
    return _times(alu, alu.settled(registers), int(count.item()))


def requantized_on_alu(op: RequantizeOp, alu: Alu) -> Registers | str:
    """Times a power of two, rounded to the nearest integer, half to even, within limits.

    Half of the last place is added, and what lies behind it cut off: `v = x + 2^(n-1); v >> n`.
    That rounds ties up; where it gives an odd number one is taken from v first, which makes no
    difference if there was no tie: `(v + ((v << (31 - n)) >> 31)) >> n`.
    """
    registers = alu.operand(op.x)
    scale, zero = alu.number(op.scale), alu.number(op.zero)
    if registers is None or scale is None or zero is None:
        return "its operand is not in registers, or its scale is not known"
    if scale.size == 0 or scale.min() != scale.max() or zero.min() != zero.max():
        return "scales or zero points differ by channel"
    fraction, exponent = math.frexp(float(scale.flat[0]))
    places = 1 - exponent
    if fraction != 0.5:
        return f"its scale {scale.flat[0]:g} is no power of two"
    if places > 30 or (registers.bound > _EXACT and places > 16):
        return "sums are rounded to floats of 32 bits first"
    if registers.limits is not None:
        registers = alu.settled(registers)
    low, high = op.limits
    point = int(zero.flat[0])
    found = _times(alu, registers, -places) if places <= 0 else _rounded(alu, registers, places)
    if isinstance(found, str):
        return found
    if op.is_centered:
        low, high = low - point, high - point
    elif point:
        found = replace(found, offset=found.offset + point, bound=found.bound + abs(point))
    return replace(alu.settled(found) if point else found, limits=(low, high))


def _rounded(alu: Alu, registers: Registers, places: int) -> Registers | str:
    from tcopt.dialects.graph.binary import AddOp
    from tcopt.dialects.graph.shift import ShiftLeftOp, ShiftRightOp

    half = 1 << (places - 1)
    if registers.bound + half > _MOST:
        return "sums may be larger than 32 bits hold"
    up = alu.settled(replace(registers, offset=registers.offset + half)).value
    last = alu.add(ShiftLeftOp(up, alu.constant(31 - places)))
    tie = alu.add(ShiftRightOp(last, alu.constant(31)))
    total = alu.add(AddOp(up, tie))
    value = alu.add(ShiftRightOp(total, alu.constant(places)))
    return Registers(value, np.zeros((), np.int64), (registers.bound >> places) + 1)


def _times(alu: Alu, registers: Registers, places: int) -> Registers | str:
    """Times a power of two."""
    from tcopt.dialects.graph.shift import ShiftLeftOp

    bound = registers.bound << max(places, 0)
    if not 0 <= places <= 30 or bound > _MOST:
        return "bits may be shifted out"
    if places == 0:
        return registers
    value = alu.add(ShiftLeftOp(registers.value, alu.constant(places)))
    return Registers(value, registers.offset << places, bound)


def _checked(registers: Registers) -> Registers | str:
    return registers if registers.bound <= _MOST else "sums may be larger than 32 bits hold"
