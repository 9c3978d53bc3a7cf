"""Knobs with the value `estimated`, which leaves the decision to an estimate during scheduling.

The estimate depends on loops that are created while a schedule is written, so the estimated number
is not known when the choice is made.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.spaces.space import Knob

ESTIMATED = -1
"""Knob value that leaves the decision to the estimate."""


def estimated_knob(name: str, values: Sequence[int]) -> Knob:
    """Return a knob whose first value leaves the decision to an estimate."""
    words = ("estimated", *map(str, values))
    return Knob(name, (ESTIMATED, *values), words, is_quiet=True)


def given(value: int) -> int | None:
    """Return a chosen value; None if it is left to an estimate."""
    return None if value == ESTIMATED else value
