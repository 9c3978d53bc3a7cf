"""Handles of blocks and loops, and values of knobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """Handle of a block: its name, which is unique in a function."""

    name: str


class Loop:
    """Handle of a loop; stays valid through all edits that keep the loop.

    A schedule creates one handle for each loop, so handles compare by identity.
    """

    def __init__(self, name: str | None):
        self.name = name

    def __repr__(self) -> str:
        return f"Loop(%{self.name or 'unnamed'})"


class KnobValue(int):
    """Value of a knob: an int that a recorded schedule traces back to the knob.

    Arithmetic on it returns plain ints, which are recorded as constants.
    """

    knob: str

    def __new__(cls, value: int, knob: str) -> KnobValue:
        made = super().__new__(cls, value)
        made.knob = knob
        return made
