"""llvm-mca: how many cycles a core takes for a round of a loop whose data is in the first cache."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tcopt.support.errors import InputError

_NEWEST, _OLDEST = 24, 14
_ROUNDS = 200
_TIMEOUT_S = 60
_UNKNOWN = "is not a recognized processor"
_LOADS_TWO = re.compile(r"ldp|ld2r?")


@dataclass(frozen=True)
class Estimate:
    """What llvm-mca says of a loop.

    Attributes:
        cycles: of a round, in a steady state.
        loads: instructions of a round that read memory; pairs count twice.
        stores: instructions of a round that write memory.
    """

    cycles: float
    loads: int
    stores: int


class Mca:
    """An llvm-mca of some version.

    Args:
        command: its name.
    """

    def __init__(self, command: str):
        self.command = command

    def estimate(self, lines: Sequence[str], triple: str, cpu: str) -> Estimate | None:
        """What it says of the instructions of a loop; None if it does not know the core.

        Raises:
            InputError: it does not take the instructions.
        """
        done = subprocess.run(
            [self.command, f"-mtriple={triple}", f"-mcpu={cpu}", "-json", f"-iterations={_ROUNDS}"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if _UNKNOWN in done.stderr:
            return None
        if done.returncode:
            reason = next(iter(done.stderr.strip().splitlines()), "no reason given")
            raise InputError(f"{self.command} failed for {cpu}: {reason}")
        return _parse(json.loads(done.stdout)["CodeRegions"][0], lines)


def _parse(region: dict[str, Any], lines: Sequence[str]) -> Estimate:
    facts = region["InstructionInfoView"]["InstructionList"]
    loads = sum(
        2 if _LOADS_TWO.match(line) else 1
        for line, fact in zip(lines, facts, strict=True)
        if fact["mayLoad"]
    )
    stores = sum(fact["mayStore"] for fact in facts)
    summary = region["SummaryView"]
    return Estimate(summary["TotalCycles"] / summary["Iterations"], loads, stores)


def find_mca() -> Mca:
    """The newest llvm-mca of this machine.

    Raises:
        InputError: there is none.
    """
    names = [f"llvm-mca-{n}" for n in range(_NEWEST, _OLDEST - 1, -1)]
    for name in (*names, "llvm-mca"):
        if shutil.which(name) is not None:
            return Mca(name)
    raise InputError("llvm-mca is not installed", hint="on Debian: apt-get install llvm-19")
