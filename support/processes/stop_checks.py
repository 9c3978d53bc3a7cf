"""Checks whether the current run should stop, for Python code called during a run.

Code that may take long calls `check_stop` every few milliseconds, or does its work by `in_steps` or
`apart`. These raise the error that ends the run, such as DeadlineError.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextvars import ContextVar
from threading import Thread
from typing import TypeVar

from tcopt.support.processes.threads import try_start

T = TypeVar("T")

_STEP = 1 << 18
"""Cost of the items between two checks, in characters; takes about a millisecond."""
_ITEM = 32
"""Cost of an item in addition to its characters."""
_PATIENCE_S = 0.02

_check: ContextVar[Callable[[], None] | None] = ContextVar("stop check", default=None)


class StopChecks:
    """Sets the stop check within a context; each run enters one.

    Args:
        check: raises an error to end the run; None for no check.
    """

    __slots__ = ("_function", "_token")

    def __init__(self, check: Callable[[], None] | None):
        self._function = check

    def __enter__(self) -> None:
        self._token = _check.set(self._function)

    def __exit__(self, *error: object) -> None:
        _check.reset(self._token)


def check_stop() -> None:
    """Raise the error of the current run if it should stop."""
    check = _check.get()
    if check is not None:
        check()


def in_steps(items: Iterable[T], size: Callable[[T], int] | None = None) -> Generator[T]:
    """Yield items, checking for a stop about every millisecond.

    Args:
        size: cost of an item in addition to a constant, such as its number of characters.
    """
    cost = 0
    for item in items:
        cost += _ITEM + (0 if size is None else size(item))
        if cost >= _STEP:
            cost = 0
            check_stop()
        yield item


def apart(function: Callable[[], T]) -> T:
    """Run an uninterruptible function that releases the GIL, such as one of a C library.

    If the run should stop earlier, the call is abandoned; it continues in a thread of its own.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:  # Raised again by the caller below.
            errors.append(error)

    thread = Thread(target=call, daemon=True)
    if not try_start(thread):
        return function()
    while thread.is_alive():
        thread.join(_PATIENCE_S)
        check_stop()
    if errors:
        raise errors[0]
    return results[0]
