"""llvm-mca: cycles that a core takes for an iteration of a loop with all data in L1."""

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
    """llvm-mca's result for a loop.

    Attributes:
        cycles: steady-state cycles of an iteration.
        loads: load instructions of an iteration; load pairs count twice.
        stores: store instructions of an iteration.
    """

    cycles: float
    loads: int
    stores: int


class Mca:
    """An installed llvm-mca.

    Args:
        command: name of the executable.
    """

    def __init__(self, command: str):
        self.command = command

    def estimate(self, lines: Sequence[str], triple: str, cpu: str) -> Estimate | None:
        """Analyse the instructions of a loop; return None if the core is unknown.

        Raises:
            InputError: the instructions cannot be parsed.
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
    """Return the newest llvm-mca of this machine.

    Raises:
        InputError: llvm-mca is not installed.
    """
    names = [f"llvm-mca-{n}" for n in range(_NEWEST, _OLDEST - 1, -1)]
    for name in (*names, "llvm-mca"):
        if shutil.which(name) is not None:
            return Mca(name)
    raise InputError("llvm-mca is not installed", hint="on Debian: apt-get install llvm-19")
