"""What a block reads and writes, as spaces state it for features."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, access_bits
from tcopt.schedules.spaces.space import Operand

BYTE = 8
"""Bits of one."""


def operands_of(pattern: BlockPattern) -> Sequence[Operand]:
    """The buffers of a block: what it writes, then what it reads."""
    reads = (_operand(term, is_output=False) for term in pattern.terms)
    return (_operand(pattern.store, is_output=True), *reads)


def _operand(access: StridedAccess, *, is_output: bool) -> Operand:
    shape = buffer_shape(access.buffer)
    # An index that is not a sum of variables may be any place.
    steps = tuple(tuple(1 for _ in shape) if s is None else s for s in access.steps)
    return Operand(shape, access_bits(access) / BYTE, steps, is_output)
