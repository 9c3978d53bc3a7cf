"""Python's garbage collector, kept out of work that makes many objects and leaves few behind."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quiet_collector() -> Generator[None]:
    """No garbage collection inside: IR and modules are large, and little of it dies in cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
