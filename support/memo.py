"""Memoisation of results that are used repeatedly during a compile.

The caches are bounded and cleared after the compile, as their contents are rarely useful for other
models, and a process may compile any number of models.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache  # pyright: ignore[reportPrivateUsage]
from typing import TypeVar

T = TypeVar("T")

_tables: list[Callable[[], None]] = []


def memo(most: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """Memoise like `functools.lru_cache` with a given size, until `clear_memos` is called."""

    def decorate(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        table = lru_cache(maxsize=most)(function)
        on_clear(table.cache_clear)
        return table

    return decorate


def on_clear(clear: Callable[[], None]) -> None:
    """Register a function that clears another cache together with these."""
    _tables.append(clear)


def clear_memos() -> None:
    """Clear all caches."""
    for clear in _tables:
        clear()
