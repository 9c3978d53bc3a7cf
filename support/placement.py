"""Warnings about where a model runs, which a program from the cache repeats."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from tcopt.support.collecting import collecting

_COLLECTED: ContextVar[list[str] | None] = ContextVar("placement", default=None)


class PlacementWarning(UserWarning):
    """An accelerator computes no operator of a model that was compiled for it."""


def warn_of_placement(message: str) -> None:
    """Issue a `PlacementWarning`."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected.append(message)
    warnings.warn(message, PlacementWarning, stacklevel=3)


@contextmanager
def collect_placement_warnings() -> Generator[list[str]]:
    """Gather the messages of the warnings issued inside, which are issued all the same."""
    with collecting(_COLLECTED) as messages:
        yield messages
