"""Lists in context variables, which receive what is reported inside of a context."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_T = TypeVar("_T")


@contextmanager
def collecting(variable: ContextVar[list[_T] | None]) -> Generator[list[_T]]:
    """Make a new list the value of a variable, and return it."""
    found: list[_T] = []
    token = variable.set(found)
    try:
        yield found
    finally:
        variable.reset(token)
