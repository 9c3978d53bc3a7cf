"""All checks of a stream that need no execution."""

from __future__ import annotations

from tcopt.backends.vdla.simulator.faults import fault
from tcopt.backends.vdla.simulator.proof import Proof, prove
from tcopt.backends.vdla.simulator.tasks import machine_of, tasks_of
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla.stream import Stream


def check_stream(stream: Stream, target: VdlaTargetAttr) -> Proof:
    """Show that a stream computes the same in every interleaving of the units, and ends.

    Returns:
        A proof without faults.
    Raises:
        VerificationError: the first fault, with the instruction and where it comes from.
    """
    tasks, faults = tasks_of(stream, target)
    if faults:
        raise faults[0]
    proof = prove(machine_of(target, stream), tasks, limit=1)
    for found in proof.faults:
        number = found.tasks[0]
        hint = _HINTS[found.kind]
        raise fault(f"{found.kind}: {found.message}", stream.instructions[number], number, hint)
    return proof


_HINTS = {
    "race": "a token from the unit that is to be first orders them",
    "deadlock": "send the token before what waits for it",
    "token left": "each token that is sent is waited for",
    "overflow": "wait for tokens earlier, or send fewer",
    "unfinished": "vdla.finish, or what it waits for, waits for a token of that unit",
}
