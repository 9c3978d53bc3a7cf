"""Memory of CUDA devices, and page-locked host memory that stages copies."""

from __future__ import annotations

import ctypes
from threading import Lock
from typing import TYPE_CHECKING

from tcopt.runtime.device.cuda_driver import ADDRESS, HANDLE, CudaDriver
from tcopt.runtime.device.cuda_events import Event
from tcopt.support.processes.finalizers import finalizer

if TYPE_CHECKING:
    from tcopt.runtime.device.cuda import CudaDevice

CHUNK = 2 << 20
"""Size in bytes of a page-locked buffer; longer copies are split into chunks."""

_BUFFERS = 2
"""Double buffering: the host copies one buffer while the device copies the other."""

KEPT_BYTES = 256 << 20
"""Bytes of freed memory that the pool keeps for later allocations."""

_POOLS_SUPPORTED = 115
"""CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED."""
_RELEASE_THRESHOLD = 4
"""CU_MEMPOOL_ATTR_RELEASE_THRESHOLD."""


class DeviceMemory:
    """Device memory, freed with the object; `int()` returns its address.

    Memory is allocated from the driver's pool in stream order, so that neither allocating nor
    freeing waits for kernels. Devices without pools use the synchronous `cuMemAlloc`.
    """

    def __init__(self, device: CudaDevice, size: int):
        self._device = device
        # The driver rejects allocations of 0 bytes.
        arguments = (max(size, 1), device.stream) if device.has_pool else (max(size, 1),)
        function = "cuMemAllocAsync" if device.has_pool else "cuMemAlloc_v2"
        action = f"allocating {size} bytes on {device.name}"
        self._address: int = device.driver.get(function, ADDRESS, *arguments, action=action)

    def __int__(self) -> int:
        return self._address

    @finalizer
    def __del__(self) -> None:
        with self._device.current():
            if self._device.has_pool:
                self._device.driver.code("cuMemFreeAsync", self._address, self._device.stream)
            else:
                self._device.driver.code("cuMemFree_v2", self._address)


class ForeignMemory:
    """Device memory that another library owns; `int()` returns its address."""

    def __init__(self, address: int, owner: object):
        self._address = address
        self._owner = owner

    def __int__(self) -> int:
        return self._address


def open_pool(driver: CudaDriver, device: int, action: str) -> bool:
    """Let a device's memory pool keep freed memory, up to a limit.

    Returns:
        Whether the device has a pool.
    """
    attribute = (_POOLS_SUPPORTED, device)
    if not driver.get("cuDeviceGetAttribute", ctypes.c_int, *attribute, action=action):
        return False
    pool = driver.get("cuDeviceGetDefaultMemPool", HANDLE, device, action=action)
    kept = ctypes.c_uint64()
    arguments = (pool, _RELEASE_THRESHOLD, ctypes.byref(kept))
    driver.call("cuMemPoolGetAttribute", *arguments, action=action)
    # The pool is shared with other libraries of the process, which may keep more.
    if kept.value < KEPT_BYTES:
        kept.value = KEPT_BYTES
        driver.call("cuMemPoolSetAttribute", *arguments, action=action)
    return True


class _Buffer:
    """Page-locked buffer, and the event recorded after its last copy."""

    def __init__(self, device: CudaDevice, action: str):
        self.address: int = device.driver.get("cuMemHostAlloc", HANDLE, CHUNK, 0, action=action)
        self.event = Event(device)
        self.target = self.size = 0

    def finish(self, action: str) -> None:
        """Wait for the last copy; if it read from the device, copy the data to its destination."""
        size, self.size = self.size, 0
        self.event.synchronize(action)
        if size:
            ctypes.memmove(self.target, self.address, size)


class PinnedStaging:
    """Page-locked buffers of a device that all copies between it and the host pass through.

    The device accesses such memory directly: copies are asynchronous, and the driver makes no
    copy of its own.
    """

    def __init__(self, device: CudaDevice):
        self._device = device
        self._lock = Lock()
        self._buffers: list[_Buffer] = []
        self._used = 0

    def write(self, source: int, target: int, size: int) -> None:
        """Copy bytes from the host to the device; the source may change once this returns."""
        action = f"copying {size} bytes to {self._device.name}"
        with self._lock, self._device.current():
            for start in range(0, size, CHUNK):
                count = min(CHUNK, size - start)
                buffer = self._buffer(action)
                ctypes.memmove(buffer.address, source + start, count)
                arguments = (target + start, buffer.address, count, self._device.stream)
                self._device.driver.call("cuMemcpyHtoDAsync_v2", *arguments, action=action)
                buffer.event.record(self._device.stream)

    def read(self, source: int, target: int, size: int) -> None:
        """Wait for the stream and copy bytes from the device to the host."""
        action = f"copying {size} bytes from {self._device.name}"
        with self._lock, self._device.current():
            try:
                for start in range(0, size, CHUNK):
                    count = min(CHUNK, size - start)
                    buffer = self._buffer(action)
                    arguments = (buffer.address, source + start, count, self._device.stream)
                    self._device.driver.call("cuMemcpyDtoHAsync_v2", *arguments, action=action)
                    buffer.event.record(self._device.stream)
                    buffer.target, buffer.size = target + start, count
                for buffer in self._buffers:
                    buffer.finish(f"running the kernels on {self._device.name}")
            finally:
                # After an error, the destinations may no longer exist.
                for buffer in self._buffers:
                    buffer.size = 0

    def _buffer(self, action: str) -> _Buffer:
        """Return the next buffer, after its last copy has finished."""
        if len(self._buffers) < _BUFFERS:
            self._buffers.append(_Buffer(self._device, action))
        buffer = self._buffers[self._used % len(self._buffers)]
        self._used += 1
        buffer.finish(action)
        return buffer
