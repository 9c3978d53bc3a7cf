"""Choices that an estimate makes where nobody does: `estimated`, or a number instead of it.

What such a number would be by default depends on loops that are made while a schedule is written,
so that it is not part of the choice that it was estimated as.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.spaces.space import Knob

ESTIMATED = -1
"""The value of such a knob which leaves it to the estimate."""


def estimated_knob(name: str, values: Sequence[int]) -> Knob:
    """A knob whose first value leaves it to an estimate."""
    words = ("estimated", *map(str, values))
    return Knob(name, (ESTIMATED, *values), words, is_quiet=True)


def given(value: int) -> int | None:
    """A value that was chosen; None where it is left to an estimate."""
    return None if value == ESTIMATED else value
