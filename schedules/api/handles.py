"""Handles on what is being scheduled, and values of knobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A handle on a block: its name, which is unique in a function."""

    name: str


class Loop:
    """A handle on one loop, through all edits that keep the loop.

    A schedule gives one handle for each loop, so handles compare by identity.
    """

    def __init__(self, name: str | None):
        self.name = name

    def __repr__(self) -> str:
        return f"Loop(%{self.name or 'unnamed'})"


class KnobValue(int):
    """The value of a knob: an int that a recorded schedule traces back to the knob.

    Arithmetic on it gives plain ints, which are recorded as the constants they are.
    """

    knob: str

    def __new__(cls, value: int, knob: str) -> KnobValue:
        made = super().__new__(cls, value)
        made.knob = knob
        return made
