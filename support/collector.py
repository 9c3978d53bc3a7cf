"""Python's garbage collector, kept out of work that makes many objects and leaves few behind."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 200_000
"""Objects that take a collection about a tenth of a second."""

_left: list[int] = []
"""How many full collections there had been when work left many objects."""


@contextmanager
def quiet_collector() -> Generator[None]:
    """No garbage collection inside: IR and modules are large, and little of it dies in cycles.

    If many objects are left, they count as old ones, so that nobody has to wait for the next
    collection: the program's next full one looks at them, or one when this is entered again.
    """
    enabled = gc.isenabled()
    if enabled and _left and _left.pop() == _full_collections():
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # What the program itself has frozen would be unfrozen.
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
                _left[:] = [_full_collections()]
            gc.enable()


def _full_collections() -> int:
    return gc.get_stats()[-1]["collections"]
