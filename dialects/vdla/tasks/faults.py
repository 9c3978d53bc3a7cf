"""Errors of programs, with the instruction and its source location."""

from __future__ import annotations

from tcopt.dialects.vdla.stream import Instruction
from tcopt.support.errors import VerificationError
from tcopt.support.locations import describe_location, nearest_location


def fault(
    message: str, instruction: Instruction, number: int, hint: str | None = None
) -> VerificationError:
    """Return the error of an instruction, with the op that it comes from and its location."""
    op = instruction.op
    where = f"instruction {number}"
    if op is not None and (place := describe_location(nearest_location(op))):
        where += f", {place}"
    return VerificationError(message, op=op, where=where, hint=hint)
