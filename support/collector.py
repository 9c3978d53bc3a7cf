"""Python's garbage collector, kept out of work that makes many objects and leaves few behind."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 200_000
"""Objects that take a collection about a tenth of a second."""

_postponed: list[int] = []
"""How many full collections there had been when work first left many objects."""


@contextmanager
def quiet_collector() -> Generator[None]:
    """No garbage collection inside: IR and modules are large, and little of it dies in cycles.

    If many objects are left the first time, they count as old ones, so that who compiles one
    model does not wait for a collection: the program's next full one looks at them, or one
    when this is entered again.
    """
    enabled = gc.isenabled()
    if enabled and _postponed and _postponed[0] == _full_collections():
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # What the program itself has frozen would be unfrozen.
            if not _postponed and gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
                _postponed.append(_full_collections())
            gc.enable()


def _full_collections() -> int:
    return gc.get_stats()[-1]["collections"]
