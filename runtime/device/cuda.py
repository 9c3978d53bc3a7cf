"""CUDA devices: the primary context of one, a stream, and what runs on it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.ptx.names import entry_name
from tcopt.runtime.device.cuda_driver import (
    ADDRESS,
    HANDLE,
    MAJOR,
    MINOR,
    CudaDriver,
    cuda_driver,
)
from tcopt.runtime.device.cuda_graph import Graph
from tcopt.runtime.device.interface import KernelSource, Times, lost
from tcopt.runtime.device.steps import BufferOffset, Copy, Launch, Step
from tcopt.support.errors import DeviceLostError, UnsupportedError

Array = NDArray[Any]

DEVICE_ENVIRONMENT = "TCOPT_CUDA_DEVICE"
"""The number of the device to take, 0 by default."""

_NANOSECONDS = 1e6
"""In a millisecond, the unit of CUDA's events."""


@cache
def cuda_device() -> CudaDevice:
    """The device to use.

    Raises:
        UnsupportedError: the machine has no driver or no device.
    """
    driver = cuda_driver()
    count = driver.get("cuDeviceGetCount", ctypes.c_int, action="counting devices")
    wanted = os.environ.get(DEVICE_ENVIRONMENT, "0")
    if not wanted.isdecimal() or int(wanted) >= count:
        raise UnsupportedError(
            f"there is no CUDA device {wanted}", hint=f"devices have numbers from 0 to {count - 1}"
        )
    return CudaDevice(driver, int(wanted))


@cache
def local_capability() -> int | None:
    """The architecture of this machine's device, such as 80; None where there is no device."""
    try:
        major, minor = cuda_device().capability
    except UnsupportedError:
        return None
    return 10 * major + minor


class DeviceMemory:
    """Memory of a device, freed with the object; `int()` returns its address."""

    def __init__(self, device: CudaDevice, size: int):
        self._device = device
        action = f"allocating {size} bytes on {device.name}"
        # At least one byte: the driver rejects allocations of none.
        self._address: int = device.driver.get(
            "cuMemAlloc_v2", ADDRESS, max(size, 1), action=action
        )

    def __int__(self) -> int:
        return self._address

    def __del__(self) -> None:
        # The interpreter may be shutting down.
        with suppress(Exception), self._device.current():
            self._device.driver.code("cuMemFree_v2", self._address)


class Event:
    """A point in time on a stream of the current context."""

    def __init__(self, driver: CudaDriver):
        self._driver = driver
        self._handle: int = driver.get("cuEventCreate", HANDLE, 0, action="creating an event")

    def record(self, stream: int) -> None:
        self._driver.call("cuEventRecord", self._handle, stream, action="recording an event")

    def synchronize(self) -> None:
        self._driver.call("cuEventSynchronize", self._handle, action="waiting for the kernels")

    def milliseconds_to(self, later: Event) -> float:
        """Return the time between two recorded events, both of which have happened."""
        events = (self._handle, later._handle)
        return self._driver.get(
            "cuEventElapsedTime", ctypes.c_float, *events, action="reading the time of an event"
        )

    def __del__(self) -> None:
        with suppress(Exception):
            self._driver.code("cuEventDestroy_v2", self._handle)


class CudaDevice:
    """A device and a stream of it.

    Attributes:
        capability: the major and minor number of its architecture.
        stream: the handle of the stream.
    """

    def __init__(self, driver: CudaDriver, number: int):
        self.driver = driver
        device = driver.get("cuDeviceGet", ctypes.c_int, number, action=f"opening device {number}")
        self.name = driver.device_name(device)
        major, minor = (
            driver.get(
                "cuDeviceGetAttribute", ctypes.c_int, number, device, action="asking a device"
            )
            for number in (MAJOR, MINOR)
        )
        self.capability = int(major), int(minor)
        self._failure = ""
        action = f"opening {self.name}"
        self._context: int = driver.get("cuDevicePrimaryCtxRetain", HANDLE, device, action=action)
        with self.current():
            self.stream: int = driver.get("cuStreamCreate", HANDLE, 0, action=action)

    @contextmanager
    def current(self) -> Generator[None]:
        """Make the device's context the current one of this thread.

        Raises:
            DeviceLostError: a kernel failed, now or before.
        """
        if self._failure:
            raise lost(self.name, self._failure)
        self.driver.call("cuCtxPushCurrent_v2", self._context, action=f"entering {self.name}")
        try:
            yield
        except DeviceLostError as error:
            self._failure = self._failure or error.message
            raise lost(self.name, self._failure) from error
        finally:
            self.driver.code("cuCtxPopCurrent_v2", ctypes.byref(HANDLE()))

    def allocate(self, size: int) -> DeviceMemory:
        """Memory of the device, which begins at a multiple of 256 bytes."""
        with self.current():
            return DeviceMemory(self, size)

    def write(self, array: Array, buffer: DeviceMemory) -> None:
        if array.nbytes:
            arguments = (int(buffer), array.ctypes.data, array.nbytes, self.stream)
            action = f"copying {array.nbytes} bytes to {self.name}"
            with self.current():
                self.driver.call("cuMemcpyHtoDAsync_v2", *arguments, action=action)
                self.synchronize()

    def read(self, buffer: DeviceMemory, array: Array) -> None:
        with self.current():
            if array.nbytes:
                arguments = (array.ctypes.data, int(buffer), array.nbytes, self.stream)
                action = f"copying {array.nbytes} bytes from {self.name}"
                self.driver.call("cuMemcpyDtoHAsync_v2", *arguments, action=action)
            self.synchronize()

    def copy(self, source: DeviceMemory, target: DeviceMemory, size: int) -> None:
        if size:
            with self.current():
                self._copy(int(target), int(source), size)

    def wait(self) -> None:
        with self.current():
            self.synchronize()

    def synchronize(self, action: str = "") -> None:
        """Wait for the stream, in the device's context.

        Raises:
            BackendError: a kernel failed.
        """
        action = action or f"running the kernels on {self.name}"
        self.driver.call("cuStreamSynchronize", self.stream, action=action)

    def load(self, sources: Sequence[KernelSource]) -> dict[str, int]:
        """Handles of functions by the names of their kernels."""
        functions: dict[str, int] = {}
        with self.current():
            for source in sources:
                action = f"compiling {', '.join(source.kernels) or 'kernels'} for {self.name}"
                module = self.driver.load_module(source.text, action)
                for name in source.kernels:
                    arguments = (HANDLE, module, entry_name(name).encode())
                    functions[name] = self.driver.get(
                        "cuModuleGetFunction", *arguments, action=f"looking up kernel {name}"
                    )
        return functions

    def prepare(
        self, kernels: Mapping[str, int], steps: Sequence[Step], buffers: Sequence[DeviceMemory]
    ) -> CudaSteps:
        with self.current():
            return CudaSteps(self, [self._enqueue(kernels, step, buffers) for step in steps])

    def _enqueue(
        self, kernels: Mapping[str, int], step: Step, buffers: Sequence[DeviceMemory]
    ) -> CudaStep:
        """Return the function that puts a step on the stream."""

        def address(place: BufferOffset) -> int:
            return int(buffers[place.buffer]) + place.offset

        if isinstance(step, Copy):
            places = (address(step.target), address(step.source))
            return CudaStep(f"a copy of {step.size} bytes", partial(self._copy, *places, step.size))
        assert isinstance(step, Launch)
        values = (ADDRESS * len(step.arguments))(*map(address, step.arguments))
        first, size = ctypes.addressof(values), ctypes.sizeof(ADDRESS)
        pointers = (ctypes.c_void_p * len(values))(*(first + size * n for n in range(len(values))))
        sizes = (*step.grid, *step.block, 0)
        arguments = (kernels[step.kernel], *sizes, self.stream, pointers, None)
        action = f"launching {step.description} on {self.name}"
        launch = partial(self.driver.call, "cuLaunchKernel", *arguments, action=action)
        return CudaStep(step.description, launch, values)

    def _copy(self, target: int, source: int, size: int) -> None:
        arguments = (target, source, size, self.stream)
        action = f"copying {size} bytes on {self.name}"
        self.driver.call("cuMemcpyDtoDAsync_v2", *arguments, action=action)


@dataclass(frozen=True)
class CudaStep:
    """A launch or copy on certain buffers.

    Attributes:
        description: names it in messages.
        enqueue: puts it on the stream.
        arguments: memory that `enqueue` reads and that has to stay.
    """

    description: str
    enqueue: Callable[[], None]
    arguments: object = None


class CudaSteps:
    """Launches and copies on certain buffers: a graph, where the driver makes one."""

    def __init__(self, device: CudaDevice, steps: Sequence[CudaStep]):
        self._device = device
        self._steps = steps
        self._graph: Graph | None = None
        if steps:
            self._graph = Graph.capture(device.driver, device.stream, self._enqueue)

    def start(self) -> None:
        with self._device.current():
            self._start()

    def start_checked(self, check: Callable[[], None]) -> None:
        with self._device.current():
            check()
            for step in self._steps:
                step.enqueue()
                self._device.synchronize(f"running {step.description} on {self._device.name}")
                check()

    def seconds(self, runs: int) -> float:
        with self._device.current():
            begin, end = self._event(), self._event()
            begin.record(self._device.stream)
            for _ in range(runs):
                self._start()
            end.record(self._device.stream)
            end.synchronize()
            return begin.milliseconds_to(end) * 1e-3 / runs

    def times(self) -> Times:
        """Each step is between two events, whose own time is counted with it."""
        stream = self._device.stream
        with self._device.current():
            events = [self._event() for _ in range(len(self._steps) + 1)]
            events[0].record(stream)
            for step, event in zip(self._steps, events[1:], strict=True):
                step.enqueue()
                event.record(stream)
            events[-1].synchronize()
            marks = [round(events[0].milliseconds_to(event) * _NANOSECONDS) for event in events]
        return np.array([marks[:-1], marks[1:]], np.int64).T

    def _start(self) -> None:
        if self._graph is None:
            self._enqueue()
        else:
            self._graph.launch()

    def _enqueue(self) -> None:
        for step in self._steps:
            step.enqueue()

    def _event(self) -> Event:
        return Event(self._device.driver)

    def __del__(self) -> None:
        graph = getattr(self, "_graph", None)
        if graph is not None:
            # The interpreter may be shutting down.
            with suppress(Exception), self._device.current():
                graph.destroy()
