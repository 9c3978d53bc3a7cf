"""Child processes of the tuner, whose failures are failures of candidates."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tcopt.support.processes.child_process import ChildDied, ChildLate, ChildProcess
from tcopt.support.processes.messages import Part
from tcopt.tuner.measure.outcomes import CRASH, RUN_TIMEOUT, CandidateFailed

_MEMORY_SHARE = 0.6


def memory_for_child() -> int:
    """Return the memory limit of a child in bytes: a fraction of the machine's memory."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return int(pages * size * _MEMORY_SHARE)


def ask_child(
    child: ChildProcess,
    facts: Mapping[str, Any],
    parts: Sequence[Part] = (),
    *,
    limit: float,
    spare: float = 0.0,
    subject: str = "it",
    statuses: tuple[str, str] = (RUN_TIMEOUT, CRASH),
) -> tuple[dict[str, Any], list[memoryview]]:
    """Send a request about a candidate to a child; return the facts and parts of the answer.

    Args:
        limit: time limit in seconds.
        spare: seconds in addition to the limit that errors mention.
        subject: what messages say that the child does.
        statuses: statuses of candidates that take too long, and that end the process.
    Raises:
        CandidateFailed: the child does not answer, or reports that the candidate failed.
        ChildError: the child reports another error.
    """
    try:
        reply, found = child.ask(facts, parts, limit=limit + spare)
    except ChildLate:
        text = f"{subject} did not end within {limit:.3g} s"
        raise CandidateFailed(statuses[0], text) from None
    except ChildDied as error:
        why = "; was there too little memory?" if error.killed else ""
        text = f"{subject} ended its process ({error.status}){why}"
        raise CandidateFailed(statuses[1], text) from None
    if "status" in reply:
        raise CandidateFailed(reply["status"], reply["message"])
    return reply, found
