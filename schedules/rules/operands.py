"""Operands of a block, as input of cost model features."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, access_bits
from tcopt.schedules.spaces.space import Operand

BYTE = 8
"""Bits in a byte."""


def operands_of(pattern: BlockPattern) -> Sequence[Operand]:
    """Return the buffers of a block: the one it writes, then those it reads."""
    reads = (_operand(term, is_output=False) for term in pattern.terms)
    return (_operand(pattern.store, is_output=True), *reads)


def _operand(access: StridedAccess, *, is_output: bool) -> Operand:
    shape = buffer_shape(access.buffer)
    # An index that is not linear in the variables counts as moving in every dimension.
    steps = tuple(tuple(1 for _ in shape) if s is None else s for s in access.steps)
    return Operand(shape, access_bits(access) / BYTE, steps, is_output)
