"""The ranges of the fields of instructions."""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla.attrs import WIDTHS


def check_field(field: str, number: int, what: str, least: int = 0) -> None:
    """Raise VerifyException if a value does not fit an unsigned field of an instruction."""
    most = (1 << WIDTHS[field]) - 1
    if not least <= number <= most:
        raise VerifyException(f"{what} is {number}, the instruction holds {least} to {most}")


def check_entry(memory: str, last: int, target: VdlaTargetAttr) -> None:
    """Raise VerifyException if a memory of the accelerator does not have an entry."""
    there = target.entries[memory]
    if last >= there:
        raise VerifyException(f"entry {last} of {memory}, which has {there}")


def check_signed(field: str, number: int, what: str) -> None:
    """Raise VerifyException if a value does not fit a signed field of an instruction."""
    half = 1 << (WIDTHS[field] - 1)
    if not -half <= number < half:
        raise VerifyException(f"{what} is {number}, the instruction holds {-half} to {half - 1}")
