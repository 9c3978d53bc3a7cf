"""Base class of devices that use the process's own memory and run each step synchronously.

It serves simulators and devices that are called through plain functions. A subclass defines how
kernels are loaded:

    class Simulator(HostMemoryDevice):
        name = "simulator"

        def load(self, sources):
            return {name: functions[name] for source in sources for name in source.kernels}
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.device.arrays import DeviceArray, tensor_on
from tcopt.runtime.device.interface import KernelSource, Times, no_streams
from tcopt.runtime.device.steps import BufferOffset, Copy, Launch, Step, number
from tcopt.runtime.foreign import HOST, ForeignTensor
from tcopt.runtime.outputs import align
from tcopt.support.machines.alignment import ALIGNMENT

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Call = Callable[[Launch, Sequence[Bytes]], None]
"""Runs a launch; each argument is the bytes from its offset to the end of its buffer."""


class HostMemoryDevice(ABC):
    """Device that uses host memory and runs each step synchronously."""

    name: str
    place = HOST
    stream = None

    @abstractmethod
    def load(self, sources: Sequence[KernelSource]) -> Mapping[str, Call]:
        """Return a function for each kernel name that runs a launch of the kernel.

        Raises:
            BackendError: the device rejects the sources.
        """

    def allocate(self, size: int) -> Bytes:
        return align(np.empty(size + ALIGNMENT, np.uint8), size)

    def address(self, buffer: Bytes) -> int:
        return buffer.ctypes.data

    def tensor(self, value: Any, *, writable: bool = False) -> DeviceArray:
        return tensor_on(self, value, writable=writable)

    def borrow(self, tensor: ForeignTensor, *, writable: bool = False) -> Bytes:
        """Refuse foreign tensors; arrays of the host are copied to the device's own memory."""
        raise BufferError(f"{self.name} has memory of its own")

    def follow(self, stream: int) -> None:
        raise no_streams(self.name)

    def hold(self, stream: int) -> None:
        """Do nothing: every step has finished when its call returns."""
        return None

    def write(self, array: Array, buffer: Bytes) -> None:
        buffer[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def read(self, buffer: Bytes, array: Array) -> None:
        array.reshape(-1).view(np.uint8)[:] = buffer[: array.nbytes]

    def copy(self, source: Bytes, target: Bytes, size: int) -> None:
        target[:size] = source[:size]

    def wait(self) -> None:
        """Do nothing: every step has finished when its call returns."""
        return None

    def prepare(
        self, kernels: Mapping[str, Call], steps: Sequence[Step], buffers: Sequence[Bytes]
    ) -> HostSteps:
        return HostSteps([self._call(kernels, step, buffers) for step in steps])

    def _call(
        self, kernels: Mapping[str, Call], step: Step, buffers: Sequence[Bytes]
    ) -> Callable[[], None]:
        def bytes_at(place: BufferOffset) -> Bytes:
            return buffers[place.buffer][place.offset :]

        if isinstance(step, Copy):
            source, target, size = bytes_at(step.source), bytes_at(step.target), number(step.size)
            return lambda: self.copy(source, target, size)
        run, arguments = kernels[step.kernel], [bytes_at(place) for place in step.arguments]
        return lambda: run(step, arguments)


class HostSteps:
    """Launches and copies with bound buffers, run one after another."""

    def __init__(self, calls: Sequence[Callable[[], None]]):
        self._calls = calls

    def start(self) -> None:
        for call in self._calls:
            call()

    def start_checked(self, check: Callable[[], None]) -> None:
        check()
        for call in self._calls:
            call()
            check()

    def seconds(self, runs: int) -> float:
        begin = time.perf_counter()
        for _ in range(runs):
            self.start()
        return (time.perf_counter() - begin) / runs

    def times(self) -> Times:
        marks = [time.perf_counter_ns()]
        for call in self._calls:
            call()
            marks.append(time.perf_counter_ns())
        return np.array([marks[:-1], marks[1:]], np.int64).T
