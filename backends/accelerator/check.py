"""Proof for programs of an accelerator that is described by facts."""

from __future__ import annotations

from tcopt.backends.accelerator.simulator.proof import Proof, prove
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.accelerator.instructions import facts_of
from tcopt.dialects.accelerator.reading import Reading, read_program
from tcopt.dialects.target import AcceleratorFacts
from tcopt.support.errors import UnsupportedError, VerificationError
from tcopt.support.locations import describe_location, nearest_location


def facts_for(program: ProgramOp) -> AcceleratorFacts:
    """Return the target accelerator of a program.

    Raises:
        UnsupportedError: it has none.
    """
    if (facts := facts_of(program)) is None:
        raise UnsupportedError("the program names no accelerator", op=program)
    return facts


def check_program(program: ProgramOp) -> tuple[Reading, Proof]:
    """Prove that a program computes the same in every interleaving of its units, and terminates.

    Raises:
        VerificationError: the first fault, with the step and its location.
    """
    read = read_program(program, facts_for(program))
    proof = prove(read.machine, read.tasks, limit=1)
    for found in proof.faults:
        number, *others = found.tasks
        step = read.tasks[number].source
        message = f"{found.kind}: {found.message}"
        for other in others:
            place = describe_location(nearest_location(read.tasks[other].source))
            message += f" of {place}" if place else ""
        place = describe_location(nearest_location(step))
        where = f"step {number}{f', {place}' if place else ''}"
        hint = "order-units lets units wait for each other"
        raise VerificationError(message, op=step, where=where, hint=hint)
    return read, proof
