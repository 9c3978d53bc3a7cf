"""The variable that makes code in this process stop, see `stops.py`."""

from __future__ import annotations

import ctypes


class StopFlag:
    """The variable of one program or module.

    Attributes:
        address: where it is, for as long as the process lives: a signal may come at any time.
    """

    _free: list[ctypes.c_int32] = []

    def __init__(self) -> None:
        self._value = self._free.pop() if self._free else ctypes.c_int32()
        self._value.value = 0
        self.address = ctypes.addressof(self._value)

    def __del__(self) -> None:
        self._free.append(self._value)

    def set(self) -> None:
        """Make the code stop."""
        self._value.value = 1

    def clear(self) -> None:
        """Let it run."""
        self._value.value = 0

    def check_memory(self) -> None:
        """Raise MemoryError if the code stopped because an allocation failed."""
        lacking = -self._value.value
        if lacking > 0:
            self.clear()
            raise MemoryError(f"a kernel could not allocate {lacking} KiB")
