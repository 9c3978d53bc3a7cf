"""The ranges of the fields of instructions."""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla.attrs import WIDTHS


def check_field(field: str, number: int, what: str, least: int = 0) -> None:
    """VerifyException for a number that a field of an instruction has no room for."""
    most = (1 << WIDTHS[field]) - 1
    if not least <= number <= most:
        raise VerifyException(f"{what} is {number}, the instruction holds {least} to {most}")


def check_entry(memory: str, last: int, target: VdlaTargetAttr) -> None:
    """VerifyException for an entry that a memory of the accelerator does not have."""
    there = target.entries[memory]
    if last >= there:
        raise VerifyException(f"entry {last} of {memory}, which has {there}")


def check_signed(field: str, number: int, what: str) -> None:
    """The same for a field that has a sign."""
    half = 1 << (WIDTHS[field] - 1)
    if not -half <= number < half:
        raise VerifyException(f"{what} is {number}, the instruction holds {-half} to {half - 1}")
