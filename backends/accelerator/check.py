"""Proof that the result of an accelerator program does not depend on the timing of its units."""

from __future__ import annotations

from tcopt.backends.accelerator.simulator.proof import Proof, prove
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.accelerator.reading import Reading, read_program, where_of
from tcopt.dialects.target import AcceleratorFacts
from tcopt.support.errors import UnsupportedError, VerificationError
from tcopt.support.locations import describe_location, nearest_location


def facts_for(program: ProgramOp) -> AcceleratorFacts:
    """Return the target accelerator of a program.

    Raises:
        UnsupportedError: it has none.
    """
    if (facts := program.facts) is None:
        raise UnsupportedError(
            "the program names no accelerator",
            op=program,
            hint="name one by the attribute tcopt.target, or the pass set-target",
        )
    return facts


def check_program(
    program: ProgramOp, facts: AcceleratorFacts | None = None
) -> tuple[Reading, Proof]:
    """Prove that a program computes the same in every interleaving of its units, and terminates.

    Args:
        facts: the accelerator, by default the target of the program.
    Raises:
        VerificationError: the first fault, with the step and its location.
    """
    read = read_program(program, facts or facts_for(program))
    steps = program.steps
    proof = prove(read.machine, read.tasks, limit=1)
    for found in proof.faults:
        number, *others = found.tasks
        message = f"{found.kind}: {found.message}"
        for other in others:
            place = describe_location(nearest_location(steps[other]))
            message += f" of {place}" if place else ""
        step, hint = steps[number], _HINTS[found.kind]
        raise VerificationError(message, op=step, where=where_of(step, number), hint=hint)
    return read, proof


_HINTS = {
    "race": "order-units lets units wait for each other",
    "deadlock": "send the token before what waits for it",
    "token left": "each token that is sent is waited for",
    "overflow": "wait for tokens earlier, or send fewer",
    "unfinished": "the end, or what it waits for, waits for that unit",
}
