"""CUDA devices, through pycuda: the device's primary context, which other libraries share."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.ptx.names import entry_name
from tcopt.runtime.device.cuda_graph import Graph
from tcopt.runtime.device.interface import KernelSource, Times
from tcopt.runtime.device.steps import BufferOffset, Copy, Launch, Step
from tcopt.support.errors import BackendError, UnsupportedError

Array = NDArray[Any]

DEVICE_ENVIRONMENT = "TCOPT_CUDA_DEVICE"
"""The number of the device to take, 0 by default."""

_NANOSECONDS = 1e6
"""In a millisecond, the unit of CUDA's events."""


@cache
def cuda_device() -> CudaDevice:
    """The device to use.

    Raises:
        UnsupportedError: pycuda is not installed, or there is no driver or no device.
    """
    try:
        import pycuda.driver as driver  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        if error.name in ("pycuda", "pycuda.driver"):
            raise UnsupportedError(
                "target cuda needs the package pycuda", hint="pip install tcopt[cuda]"
            ) from None
        raise UnsupportedError(
            f"pycuda does not load: {error}", hint="NVIDIA's driver should be installed"
        ) from error
    wanted = os.environ.get(DEVICE_ENVIRONMENT, "0")
    try:
        driver.init()
        count = driver.Device.count()
    except driver.Error as error:
        raise UnsupportedError(
            f"there is no CUDA device: {error}",
            hint="tcopt-compile --target cuda:sm_80 writes code without one",
        ) from error
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


class CudaDevice:
    """A device and a stream of it.

    Attributes:
        capability: the major and minor number of its architecture.
    """

    def __init__(self, driver: Any, number: int):
        self.driver = driver
        device = driver.Device(number)
        self.name = str(device.name())
        major, minor = device.compute_capability()
        self.capability = int(major), int(minor)
        self._context = device.retain_primary_context()
        with self.current():
            self.stream = driver.Stream()

    @contextmanager
    def current(self) -> Generator[None]:
        """Make the device's context that of this thread."""
        self._context.push()
        try:
            yield
        finally:
            self._context.pop()

    def allocate(self, size: int) -> Any:
        """Memory of the device, which begins at a multiple of 256 bytes."""
        with self.current():
            return self.driver.mem_alloc(max(size, 1))

    def write(self, array: Array, buffer: Any) -> None:
        if array.nbytes:
            with self.current():
                self.driver.memcpy_htod_async(int(buffer), array, self.stream)
                self.stream.synchronize()

    def read(self, buffer: Any, array: Array) -> None:
        with self.current():
            if array.nbytes:
                self.driver.memcpy_dtoh_async(array, int(buffer), self.stream)
            self._finish()

    def copy(self, source: Any, target: Any, size: int) -> None:
        if size:
            with self.current():
                self.driver.memcpy_dtod_async(int(target), int(source), size, self.stream)

    def wait(self) -> None:
        with self.current():
            self._finish()

    def _finish(self) -> None:
        """Wait; a kernel that failed says so here."""
        try:
            self.stream.synchronize()
        except self.driver.Error as error:
            raise BackendError(f"a kernel failed on {self.name}: {error}") from error

    def load(self, sources: Sequence[KernelSource]) -> dict[str, Any]:
        """Functions by the names of their kernels."""
        functions: dict[str, Any] = {}
        with self.current():
            for source in sources:
                try:
                    module = self.driver.module_from_buffer(source.text.encode() + b"\0")
                except self.driver.Error as error:
                    raise BackendError(
                        f"{self.name} does not take the kernels: {error}",
                        hint="compile the model for this device or an older one",
                    ) from error
                for name in source.kernels:
                    functions[name] = module.get_function(entry_name(name))
        return functions

    def prepare(
        self, kernels: Mapping[str, Any], steps: Sequence[Step], buffers: Sequence[Any]
    ) -> CudaSteps:
        with self.current():
            return CudaSteps(self, [self._call(kernels, step, buffers) for step in steps])

    def _call(
        self, kernels: Mapping[str, Any], step: Step, buffers: Sequence[Any]
    ) -> Callable[[], Any]:
        """What puts a step on the stream."""

        def address(place: BufferOffset) -> int:
            return int(buffers[place.buffer]) + place.offset

        if isinstance(step, Copy):
            places = (address(step.target), address(step.source))
            return partial(self.driver.memcpy_dtod_async, *places, step.size, self.stream)
        assert isinstance(step, Launch)
        function = kernels[step.kernel]
        function.prepare("P" * len(step.arguments))
        pointers = map(address, step.arguments)
        return partial(function.prepared_async_call, step.grid, step.block, self.stream, *pointers)


class CudaSteps:
    """Launches and copies on certain buffers: a graph, where the driver makes one."""

    def __init__(self, device: CudaDevice, calls: Sequence[Callable[[], Any]]):
        self._device = device
        self._calls = calls
        self._graph = Graph.capture(device.stream.handle, self._enqueue) if calls else None

    def start(self) -> None:
        with self._device.current():
            self._start()

    def start_checked(self, check: Callable[[], None]) -> None:
        with self._device.current():
            check()
            for call in self._calls:
                call()
                self._device.stream.synchronize()
                check()

    def seconds(self, runs: int) -> float:
        with self._device.current():
            begin, end = self._event(), self._event()
            begin.record(self._device.stream)
            for _ in range(runs):
                self._start()
            end.record(self._device.stream)
            end.synchronize()
            return begin.time_till(end) * 1e-3 / runs

    def times(self) -> Times:
        """Each step lies between two events, whose own time is counted with it."""
        stream = self._device.stream
        with self._device.current():
            events = [self._event() for _ in range(len(self._calls) + 1)]
            events[0].record(stream)
            for call, event in zip(self._calls, events[1:], strict=True):
                call()
                event.record(stream)
            events[-1].synchronize()
            marks = [round(events[0].time_till(event) * _NANOSECONDS) for event in events]
        return np.array([marks[:-1], marks[1:]], np.int64).T

    def _start(self) -> None:
        if self._graph is None:
            self._enqueue()
        elif not self._graph.launch():
            raise BackendError(f"{self._device.name} did not start the kernels")

    def _enqueue(self) -> None:
        for call in self._calls:
            call()

    def _event(self) -> Any:
        return self._device.driver.Event()

    def __del__(self) -> None:
        graph = getattr(self, "_graph", None)
        if graph is not None:
            with self._device.current():
                graph.destroy()
