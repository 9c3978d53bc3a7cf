"""Events: points in time on CUDA streams."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tcopt.runtime.device.cuda_driver import HANDLE
from tcopt.support.processes.finalizers import finalizer

if TYPE_CHECKING:
    from tcopt.runtime.device.cuda import CudaDevice

_EXTERNAL = 1
"""CU_EVENT_RECORD_EXTERNAL: a captured event is a node of the graph."""


class Event:
    """CUDA event; its methods must be called with the device's context current."""

    def __init__(self, device: CudaDevice):
        self._device, self._driver = device, device.driver
        self._handle: int = self._driver.get("cuEventCreate", HANDLE, 0, action="creating an event")

    def record(self, stream: int, *, captured: bool = False) -> None:
        """Record the event on a stream.

        Args:
            captured: the stream is being captured; launches of the graph then record the event.
        """
        arguments = (self._handle, stream, _EXTERNAL if captured else 0)
        self._driver.call("cuEventRecordWithFlags", *arguments, action="recording an event")

    def synchronize(self, action: str = "waiting for the kernels") -> None:
        """Wait until the event is reached; return at once if it was never recorded."""
        self._driver.call("cuEventSynchronize", self._handle, action=action)

    def hold(self, stream: int) -> None:
        """Make later work on a stream wait for the event."""
        arguments = (stream, self._handle, 0)
        self._driver.call("cuStreamWaitEvent", *arguments, action="ordering two streams")

    def milliseconds_to(self, later: Event) -> float:
        """Return the time between two recorded events, after both have been reached."""
        events = (self._handle, later._handle)
        return self._driver.get(
            "cuEventElapsedTime", ctypes.c_float, *events, action="reading the time of an event"
        )

    @finalizer
    def __del__(self) -> None:
        with self._device.current():
            self._driver.code("cuEventDestroy_v2", self._handle)
