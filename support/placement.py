"""Warnings about the placement of a model, which are repeated when its program is cached."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from tcopt.support.collecting import collecting

_COLLECTED: ContextVar[list[str] | None] = ContextVar("placement", default=None)


class PlacementWarning(UserWarning):
    """A model was compiled for an accelerator, but none of its operators runs there."""


def warn_of_placement(message: str) -> None:
    """Issue a `PlacementWarning`."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected.append(message)
    warnings.warn(message, PlacementWarning, stacklevel=3)


@contextmanager
def collect_placement_warnings() -> Generator[list[str]]:
    """Collect the messages of the placement warnings issued within the context."""
    with collecting(_COLLECTED) as messages:
        yield messages
