"""What ends a run before it is done: a handle, a time limit, Ctrl-C.

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
from tcopt.support.threads import try_start


class Cancellation:
    """Ends runs from another thread: those that were given it, and those that will be."""

    def __init__(self) -> None:
        # A signal's handler may cancel while the same thread holds it.
        self._lock = RLock()
        self._stops: list[Callable[[], None]] = []
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """End the runs that were given this; their `run` raises CancelledError."""
        with self._lock:
            self._cancelled = True
            stops = list(self._stops)
        for stop in stops:
            stop()

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
        """Have a function called if this is cancelled, or was."""
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
    """One run that may have to end early: by whom, by when, and what tells its code.

    Args:
        timeout: seconds from now on; None for no limit.
        cancellation: who else may end it.
    Raises:
        InputError: the timeout is not a positive number.
    """

    def __init__(self, timeout: float | None, cancellation: Cancellation | None):
        if timeout is not None and not (
            isinstance(timeout, int | float) and not math.isnan(timeout) and timeout > 0
        ):
            raise InputError(
                f"a timeout should be a number of seconds above 0, it is {timeout!r}",
                hint="leave it out for a run without a limit",
            )
        self.timeout = timeout
        self.cancellation = cancellation
        self._deadline = math.inf if timeout is None else time.monotonic() + timeout
        self._is_late = False

    def seconds_left(self) -> float:
        """Until the time is over; 0 or less afterwards."""
        return self._deadline - time.monotonic()

    def check(self) -> None:
        """Raise CancelledError or DeadlineError if the run is to end."""
        if self.cancellation is not None and self.cancellation.cancelled:
            raise CancelledError(
                "the run was cancelled",
                hint="run again, without a cancellation that was used or with another",
            )
        if self._is_late or self.seconds_left() <= 0:
            raise DeadlineError(
                f"the run took longer than its {self.timeout:g} s",
                hint="give it more time, or less to do",
            )

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
        """Have a function called, in another thread, when the run is to end."""

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
        """Hold a lock, for which this does not wait longer than the run may."""
        while not lock.acquire(timeout=min(max(self.seconds_left(), 0), _PATIENCE)):
            self.check()
        try:
            self.check()
            yield
        finally:
            lock.release()


_FOREVER = 1e8
_PATIENCE = 0.02
"""Seconds between two looks at a cancellation, while another run is waited for."""


class InterruptWatch:
    """Makes Ctrl-C stop what the main thread runs, however long that takes.

    Python raises KeyboardInterrupt when the code has returned, as it always does.
    """

    def __init__(self) -> None:
        self._watched: StopFlag | None = None
        self._place: ctypes.c_void_p | None = None
        self._install: Callable[[], int] | None = None

    def follow(self, flag: StopFlag, renew: bool) -> None:
        """Signals stop what looks at a flag from now on, if this is the main thread.

        Args:
            renew: whether another handler may have been set in the meantime.
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
