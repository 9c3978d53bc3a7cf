"""Errors of programs, which name the instruction and where it comes from."""

from __future__ import annotations

from tcopt.dialects.vdla.stream import Instruction
from tcopt.support.errors import VerificationError
from tcopt.support.locations import describe_location, nearest_location


def fault(
    message: str, instruction: Instruction, number: int, hint: str | None = None
) -> VerificationError:
    """The error of an instruction, the op that it comes from with its location."""
    op = instruction.op
    where = f"instruction {number}"
    if op is not None and (place := describe_location(nearest_location(op))):
        where += f", {place}"
    return VerificationError(message, op=op, where=where, hint=hint)
