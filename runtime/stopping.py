"""Early termination of a run: by a handle, a time limit, or Ctrl-C.

```python
cancellation = tcopt.Cancellation()
threading.Timer(5, cancellation.cancel).start()
model.run(feeds, cancellation=cancellation)     # CancelledError after five seconds
model.run(feeds, timeout=0.5)                   # DeadlineError after half a second
```
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, RLock, Thread, Timer, get_ident, main_thread

from tcopt.backends.llvm.stop_flag import StopFlag
from tcopt.support.errors import CancelledError, DeadlineError, InputError, ResourceError
from tcopt.support.processes.threads import try_start


class Cancellation:
    """Handle that stops runs from another thread: all current and future runs that are given it."""

    def __init__(self) -> None:
        # Reentrant, as a signal handler may cancel while its thread holds the lock.
        self._lock = RLock()
        self._stops: list[Callable[[], None]] = []
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Stop the runs that were given this; their `run` raises CancelledError."""
        with self._lock:
            self._cancelled = True
            stops = list(self._stops)
        for stop in stops:
            stop()

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call a function if this is cancelled, or was before."""
        with self._lock:
            self._stops.append(stop)
            late = self._cancelled
        try:
            if late:
                stop()
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)


class Control:
    """Termination conditions of one run: a time limit and a cancellation.

    Args:
        timeout: seconds from now; None for no limit.
        cancellation: handle by which another thread may stop the run.
    Raises:
        InputError: the timeout is not a positive number.
    """

    def __init__(self, timeout: float | None, cancellation: Cancellation | None):
        if timeout is not None and not (
            isinstance(timeout, int | float) and not math.isnan(timeout) and timeout > 0
        ):
            raise InputError(
                f"a timeout should be a number of seconds above 0, it is {timeout!r}",
                hint="omit it for a run without a limit",
            )
        self.timeout = timeout
        self.cancellation = cancellation
        self._deadline = math.inf if timeout is None else time.monotonic() + timeout
        self._is_late = False

    def seconds_left(self) -> float:
        """Return the seconds until the time limit; 0 or less afterwards."""
        return self._deadline - time.monotonic()

    def check(self) -> None:
        """Raise CancelledError or DeadlineError if the run should stop."""
        if self.cancellation is not None and self.cancellation.cancelled:
            raise CancelledError(
                "the run was cancelled",
                hint="run again with a new cancellation, or without one",
            )
        if self._is_late or self.seconds_left() <= 0:
            raise DeadlineError(
                f"the run took longer than its {self.timeout:g} s",
                hint="increase the timeout, or reduce the work",
            )

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call a function, in another thread, when the run should stop."""

        def stop_late() -> None:
            self._is_late = True
            stop()

        timer: Timer | None = None
        left = self.seconds_left()
        if left < _FOREVER:
            timer = Timer(max(left, 0), stop_late)
            timer.daemon = True
            if not try_start(timer):
                raise ResourceError("there is no memory for the thread that a timeout needs")
        try:
            if self.cancellation is None:
                yield
                return
            with self.cancellation.calling(stop):
                yield
        finally:
            if timer is not None:
                timer.cancel()

    @contextmanager
    def holding(self, lock: Lock) -> Iterator[None]:
        """Hold a lock, without waiting longer than the run may take."""
        while not lock.acquire(timeout=min(max(self.seconds_left(), 0), _PATIENCE)):
            self.check()
        try:
            self.check()
            yield
        finally:
            lock.release()


_FOREVER = 1e8
_PATIENCE = 0.02
"""Seconds between checks of a cancellation, while waiting for another run."""


class InterruptWatch:
    """Makes Ctrl-C stop long-running code of the main thread.

    Python raises KeyboardInterrupt as usual when the code has returned.
    """

    def __init__(self) -> None:
        self._watched: StopFlag | None = None
        self._place: ctypes.c_void_p | None = None
        self._install: Callable[[], int] | None = None

    def follow(self, flag: StopFlag, renew: bool) -> None:
        """Make signals set a stop flag from now on, if this is the main thread.

        Args:
            renew: whether another handler may have been installed in the meantime.
        """
        if get_ident() != _MAIN.ident:
            return
        if self._place is None:
            self._load()
        if self._watched is not flag:
            assert self._place is not None
            self._place.value = flag.address
            self._watched = flag
        if renew:
            assert self._install is not None
            self._install()

    def _load(self) -> None:
        from tcopt.backends.llvm.pool.process import interrupt_addresses

        install, place = interrupt_addresses()
        self._install = ctypes.CFUNCTYPE(ctypes.c_int32)(install)
        self._place = ctypes.c_void_p.from_address(place)


_MAIN: Thread = main_thread()
INTERRUPTS = InterruptWatch()
