"""Threads where there is memory for them.

Python waits without end for a thread that the system starts and that then finds no memory to begin
with. So there is a look first, and who needs a thread can do without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import TypeVar

from tcopt.support.memory import can_map

_ROOM = 12 << 20
"""Bytes of address space for a thread: its stack, and what Python makes for it."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def has_room(threads: int) -> bool:
    """Whether there is memory to start threads with."""
    return can_map(threads * _ROOM)


def try_start(thread: Thread) -> bool:
    """Start a thread; false if the system gives none."""
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
    """The results of a function for all items, by threads, or by none if there are not any."""
    every = list(items)
    threads = min(threads, len(every))
    if threads > 1 and has_room(threads):
        with ThreadPoolExecutor(threads) as pool:
            try:
                futures = [pool.submit(function, item) for item in every]
            except RuntimeError:
                # No more threads: the interpreter ends, or the system refuses.
                futures = []
        if futures:
            return [future.result() for future in futures]
    return [function(item) for item in every]
