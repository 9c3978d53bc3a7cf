"""Tables of results that are asked for again and again while a model is compiled.

They are bounded, and empty again when the compile is over: what they hold is of use to the model
that is compiled and to hardly any other, and a process may compile any number of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache  # pyright: ignore[reportPrivateUsage]
from typing import TypeVar

T = TypeVar("T")

_tables: list[Callable[[], None]] = []


def memo(most: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """As `functools.lru_cache`, for so many results, until `clear_memos`."""

    def decorate(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        table = lru_cache(maxsize=most)(function)
        on_clear(table.cache_clear)
        return table

    return decorate


def on_clear(clear: Callable[[], None]) -> None:
    """Have a table of another kind emptied with the others; the call is for good."""
    _tables.append(clear)


def clear_memos() -> None:
    """Empty all tables."""
    for clear in _tables:
        clear()
