"""`__del__` methods that give back what others own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Self = TypeVar("_Self")


def finalizer(method: Callable[[_Self], None]) -> Callable[[_Self], None]:
    """Let a `__del__` method ignore errors.

    When the interpreter ends, the modules that it uses may be gone, and an object whose
    construction failed lacks attributes.
    """

    def run(self: _Self) -> None:
        try:
            method(self)
        except Exception:
            return

    return run
