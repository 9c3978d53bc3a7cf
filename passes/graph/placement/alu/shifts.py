"""Shifts on an ALU, and scaling by powers of two, by shifts that round."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import Array, element_type
from tcopt.dialects.graph.elementwise.arithmetic import AddOp
from tcopt.dialects.graph.elementwise.shift import ShiftLeftOp, ShiftRightOp
from tcopt.passes.graph.placement.alu.sums import MOST
from tcopt.passes.graph.placement.alu_chains import AluChain
from tcopt.passes.graph.placement.registers import Registers, on_alu

_EXACT = 1 << 24
"""Up to here, 32-bit floats represent all integers exactly."""


@on_alu.rule_for(ShiftLeftOp)
def shift_left(op: ShiftLeftOp, chain: AluChain) -> Registers | str:
    """Return the shift as a product with a power of two."""
    registers, count = chain.operand(op.lhs), chain.number(op.rhs)
    if registers is None or count is None or count.size != 1 or element_type(op.lhs) != i32:
        return "its operand is not in registers, or it is not shifted by a single constant"
    return _times_power_of_two(chain, chain.settled(registers), int(count.item()))


def scaled_on_alu(
    chain: AluChain,
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
    registers = chain.operand(x)
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
        registers = chain.settled(registers)
    low, high = limits
    point = int(zero.flat[0])
    if places > 0:
        found = _rounded(chain, registers, places)
    else:
        found = _times_power_of_two(chain, registers, -places)
    if isinstance(found, str):
        return found
    if centred:
        low, high = low - point, high - point
    elif point:
        found = replace(found, offset=found.offset + point, bound=found.bound + abs(point))
    return replace(chain.settled(found) if point else found, limits=(low, high))


def _rounded(chain: AluChain, registers: Registers, places: int) -> Registers | str:
    half = 1 << (places - 1)
    if registers.bound + half > MOST:
        return "sums may exceed 32 bits"
    up = chain.settled(replace(registers, offset=registers.offset + half)).value
    last = chain.add(ShiftLeftOp(up, chain.constant(31 - places)))
    tie = chain.add(ShiftRightOp(last, chain.constant(31)))
    total = chain.add(AddOp(up, tie))
    value = chain.add(ShiftRightOp(total, chain.constant(places)))
    return Registers(value, np.zeros((), np.int64), (registers.bound >> places) + 1)


def _times_power_of_two(chain: AluChain, registers: Registers, places: int) -> Registers | str:
    """Shift registers of an ALU to the left."""
    bound = registers.bound << max(places, 0)
    if not 0 <= places <= 30 or bound > MOST:
        return "bits may be shifted out"
    if places == 0:
        return registers
    value = chain.add(ShiftLeftOp(registers.value, chain.constant(places)))
    return Registers(value, registers.offset << places, bound)
