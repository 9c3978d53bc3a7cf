"""Context variables whose lists collect what is reported within a context."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_T = TypeVar("_T")


@contextmanager
def collecting(variable: ContextVar[list[_T] | None]) -> Generator[list[_T]]:
    """Set a context variable to a new list and yield the list."""
    found: list[_T] = []
    token = variable.set(found)
    try:
        yield found
    finally:
        variable.reset(token)
