"""Checks of a stream that need no execution."""

from __future__ import annotations

from tcopt.backends.accelerator.simulator.proof import Proof, prove
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla.stream import Stream
from tcopt.dialects.vdla.tasks.faults import fault
from tcopt.dialects.vdla.tasks.reading import machine_of, tasks_of
from tcopt.support.locations import describe_location, nearest_location


def check_stream(stream: Stream, target: VdlaTargetAttr) -> Proof:
    """Prove that a stream computes the same in every interleaving of the units, and terminates.

    Returns:
        A proof without faults.
    Raises:
        VerificationError: the first fault, with the instruction and its location.
    """
    tasks, faults = tasks_of(stream, target)
    if faults:
        raise faults[0]
    proof = prove(machine_of(target, stream), tasks, limit=1)
    for found in proof.faults:
        number, *others = found.tasks
        message = f"{found.kind}: {found.message}"
        for other in others:
            message += place_text(stream, other)
        raise fault(message, stream.instructions[number], number, _HINTS[found.kind])
    return proof


def place_text(stream: Stream, number: int) -> str:
    """Return the location of an instruction as the end of a message; empty if unknown."""
    op = stream.instructions[number].op
    place = "" if op is None else describe_location(nearest_location(op))
    return f" of {place}" if place else ""


_HINTS = {
    "race": "a token from the unit that is to be first orders them",
    "deadlock": "send the token before what waits for it",
    "token left": "each token that is sent is waited for",
    "overflow": "wait for tokens earlier, or send fewer",
    "unfinished": "vdla.finish, or what it waits for, waits for a token of that unit",
}
