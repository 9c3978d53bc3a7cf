"""The variable that makes generated code in this process stop; see `stops.py`."""

from __future__ import annotations

import ctypes


class StopFlag:
    """The stop variable of one program or module.

    Attributes:
        address: its address, valid for the lifetime of the process, because a signal may arrive at
            any time.
    """

    _free: list[ctypes.c_int32] = []

    def __init__(self) -> None:
        self._value = self._free.pop() if self._free else ctypes.c_int32()
        self._value.value = 0
        self.address = ctypes.addressof(self._value)

    def __del__(self) -> None:
        self._free.append(self._value)

    def set(self) -> None:
        """Request that the code stops."""
        self._value.value = 1

    def clear(self) -> None:
        """Clear the request."""
        self._value.value = 0

    def check_memory(self) -> None:
        """Raise MemoryError if the code stopped because an allocation failed."""
        lacking = -self._value.value
        if lacking > 0:
            self.clear()
            raise MemoryError(f"a kernel could not allocate {lacking} KiB")
