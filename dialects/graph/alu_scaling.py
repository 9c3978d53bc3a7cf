"""Scaling by powers of two on an ALU, by shifts that round."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects.graph.alu_forms import MOST
from tcopt.dialects.graph.binary import AddOp
from tcopt.dialects.graph.interfaces.placement import Alu, Registers
from tcopt.dialects.graph.shift import ShiftLeftOp, ShiftRightOp, times_power_of_two
from tcopt.dialects.graph.types import Array

_EXACT = 1 << 24
"""Up to here, 32-bit floats represent all integers exactly."""


def scaled_on_alu(
    alu: Alu,
    x: SSAValue,
    scale: Array | None,
    zero: Array | None,
    limits: tuple[int, int],
    *,
    centred: bool,
) -> Registers | str:
    """Scale by a power of two, rounded to nearest even, add a zero point, and clamp.

    Args:
        scale, zero: values of scale and zero point; None if they are unknown.
        centred: whether the zero point is subtracted again.

    To divide by 2^n, half a unit is added and the low bits are shifted out:
    `v = x + 2^(n-1); v >> n`. This rounds ties up. If the quotient is odd, 1 is subtracted from v
    first, which only changes the result of ties: `(v + ((v << (31 - n)) >> 31)) >> n`.
    """
    registers = alu.operand(x)
    if registers is None or scale is None or zero is None:
        return "its operand is not in registers, or its scale is not known"
    if scale.size == 0 or scale.min() != scale.max() or zero.min() != zero.max():
        return "scales or zero points differ by channel"
    fraction, exponent = math.frexp(float(scale.flat[0]))
    places = 1 - exponent
    if fraction != 0.5:
        return f"its scale {scale.flat[0]:g} is not a power of two"
    if places > 30 or (registers.bound > _EXACT and places > 16):
        return "sums are rounded to floats of 32 bits first"
    if registers.limits is not None:
        registers = alu.settled(registers)
    low, high = limits
    point = int(zero.flat[0])
    if places > 0:
        found = _rounded(alu, registers, places)
    else:
        found = times_power_of_two(alu, registers, -places)
    if isinstance(found, str):
        return found
    if centred:
        low, high = low - point, high - point
    elif point:
        found = replace(found, offset=found.offset + point, bound=found.bound + abs(point))
    return replace(alu.settled(found) if point else found, limits=(low, high))


def _rounded(alu: Alu, registers: Registers, places: int) -> Registers | str:
    half = 1 << (places - 1)
    if registers.bound + half > MOST:
        return "sums may exceed 32 bits"
    up = alu.settled(replace(registers, offset=registers.offset + half)).value
    last = alu.add(ShiftLeftOp(up, alu.constant(31 - places)))
    tie = alu.add(ShiftRightOp(last, alu.constant(31)))
    total = alu.add(AddOp(up, tie))
    value = alu.add(ShiftRightOp(total, alu.constant(places)))
    return Registers(value, np.zeros((), np.int64), (registers.bound >> places) + 1)
