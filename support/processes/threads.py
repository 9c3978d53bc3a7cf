"""Threads that are only started if there is enough memory.

Python waits forever for a thread that starts but has no memory to run. Therefore available memory
is checked first, and callers must be able to work without threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import TypeVar

from tcopt.support.processes.memory import can_map

_ROOM = 12 << 20
"""Address space needed by a thread: its stack, and Python's own data."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def has_room(threads: int) -> bool:
    """Whether there is enough memory to start threads."""
    return can_map(threads * _ROOM)


def try_start(thread: Thread) -> bool:
    """Start a thread; return whether that was possible."""
    if not has_room(1):
        return False
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def map_side_by_side(
    function: Callable[[_Item], _Result], items: Iterable[_Item], threads: int
) -> list[_Result]:
    """Apply a function to all items in several threads, or in this one if none can be started."""
    every = list(items)
    threads = min(threads, len(every))
    if threads > 1 and has_room(threads):
        with ThreadPoolExecutor(threads) as pool:
            try:
                futures = [pool.submit(function, item) for item in every]
            except RuntimeError:
                # The interpreter is shutting down, or the system refuses to start threads.
                futures = []
        if futures:
            return [future.result() for future in futures]
    return [function(item) for item in every]
