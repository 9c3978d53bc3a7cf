"""Launches and copies on a CUDA stream, and the kernels that they launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, SupportsInt

import numpy as np

from tcopt.runtime.device.cuda_driver import ADDRESS
from tcopt.runtime.device.cuda_events import Event
from tcopt.runtime.device.cuda_graph import Graph
from tcopt.runtime.device.interface import Times
from tcopt.runtime.device.steps import BufferOffset, Copy, Launch, Step, is_empty, number
from tcopt.support.processes.finalizers import finalizer

if TYPE_CHECKING:
    from tcopt.runtime.device.cuda import CudaDevice

_NANOSECONDS = 1e6
"""Nanoseconds in a millisecond, the unit of CUDA's event times."""

TIMED_STEPS = 512
"""Maximum number of steps in a graph of several runs."""


class CudaKernels:
    """Kernels of loaded modules; the modules are unloaded with the object.

    Attributes:
        functions: function handles by kernel name.
        shared: bytes of dynamic shared memory by kernel name.
    """

    def __init__(self, device: CudaDevice):
        self._device = device
        self._modules: list[int] = []
        self.functions: dict[str, int] = {}
        self.shared: dict[str, int] = {}

    def add(self, module: int) -> None:
        """Take ownership of a module."""
        self._modules.append(module)

    @finalizer
    def __del__(self) -> None:
        with self._device.current():
            for module in self._modules:
                self._device.driver.code("cuModuleUnload", module)


@dataclass(frozen=True)
class CudaStep:
    """Launch or copy with bound addresses.

    Attributes:
        description: text for messages.
        enqueue: puts the step on a stream.
        arguments: objects that `enqueue` reads through pointers, kept alive here.
    """

    description: str
    enqueue: Callable[[int], None]
    arguments: object = None


def cuda_step(
    device: CudaDevice, kernels: CudaKernels, step: Step, buffers: Sequence[SupportsInt]
) -> CudaStep:
    """Bind a step to the addresses of its buffers."""

    def address(place: BufferOffset) -> int:
        return int(buffers[place.buffer]) + number(place.offset)

    call = device.driver.call
    if is_empty(step):
        return CudaStep("no work", lambda stream: None)
    if isinstance(step, Copy):
        target, source, size = address(step.target), address(step.source), number(step.size)
        description = f"a copy of {size} bytes"
        action = f"copying {size} bytes on {device.name}"

        def copy(stream: int) -> None:
            call("cuMemcpyDtoDAsync_v2", target, source, size, stream, action=action)

        return CudaStep(description, copy)
    assert isinstance(step, Launch)
    # A size has 32 or 64 bits, as the kernel declares it; the driver reads the lowest bytes.
    arguments = [*map(address, step.arguments), *map(number, step.sizes)]
    values = (ADDRESS * len(arguments))(*arguments)
    first, width = ctypes.addressof(values), ctypes.sizeof(ADDRESS)
    pointers = (ctypes.c_void_p * len(values))(*(first + width * n for n in range(len(values))))
    function, shared = kernels.functions[step.kernel], kernels.shared[step.kernel]
    sizes = (function, *step.grid, *step.block, shared)
    action = f"launching {step.description} on {device.name}"

    def launch(stream: int) -> None:
        call("cuLaunchKernel", *sizes, stream, pointers, None, action=action)

    return CudaStep(step.description, launch, (values, kernels))


class CudaSteps:
    """Launches and copies with bound addresses, as a CUDA graph if the driver supports it.

    Launching a graph takes the host longer than a short kernel takes the device. Measurements
    therefore use a single graph too, of several runs or of the steps with events between them.
    """

    def __init__(self, device: CudaDevice, steps: Sequence[CudaStep]):
        self._device = device
        self._steps = steps
        self._graph: Graph | None = None
        self._repeated: dict[int, Graph] = {}
        if steps:
            self._graph = device.capture(self._enqueue)

    def start(self) -> None:
        with self._device.current():
            self._start()

    def start_checked(self, check: Callable[[], None]) -> None:
        with self._device.current():
            check()
            for step in self._steps:
                step.enqueue(self._device.stream)
                self._device.synchronize(f"running {step.description} on {self._device.name}")
                check()

    def seconds(self, runs: int) -> float:
        with self._device.current():
            start, together = self._several(runs)
            launches = -(-runs // together)
            begin, end = Event(self._device), Event(self._device)
            begin.record(self._device.stream)
            for _ in range(launches):
                start()
            end.record(self._device.stream)
            end.synchronize()
            return begin.milliseconds_to(end) * 1e-3 / (launches * together)

    def _several(self, runs: int) -> tuple[Callable[[], None], int]:
        """Return a function that starts several runs at once, and their number."""
        most = min(runs, TIMED_STEPS // max(len(self._steps), 1))
        if self._graph is None or most < 2:
            return self._start, 1
        together = 1 << most.bit_length() - 1
        if together not in self._repeated:

            def enqueue(stream: int) -> None:
                for _ in range(together):
                    self._enqueue(stream)

            graph = self._device.capture(enqueue)
            assert graph is not None
            self._repeated[together] = graph
        graph = self._repeated[together]
        return lambda: graph.launch(self._device.stream), together

    def times(self) -> Times:
        """Measure each step between two events; the times include the events' own cost."""
        stream = self._device.stream
        with self._device.current():
            events = [Event(self._device) for _ in range(len(self._steps) + 1)]

            def enqueue(stream: int, *, captured: bool) -> None:
                events[0].record(stream, captured=captured)
                for step, event in zip(self._steps, events[1:], strict=True):
                    step.enqueue(stream)
                    event.record(stream, captured=captured)

            graph = None
            if self._graph is not None:
                graph = self._device.capture(partial(enqueue, captured=True))
            if graph is None:
                enqueue(stream, captured=False)
            else:
                graph.launch(stream)
            try:
                self._device.synchronize(f"measuring kernels on {self._device.name}")
            finally:
                if graph is not None:
                    graph.destroy()
            marks = [round(events[0].milliseconds_to(event) * _NANOSECONDS) for event in events]
        return np.array([marks[:-1], marks[1:]], np.int64).T

    def _start(self) -> None:
        if self._graph is None:
            self._enqueue(self._device.stream)
        else:
            self._graph.launch(self._device.stream)

    def _enqueue(self, stream: int) -> None:
        for step in self._steps:
            step.enqueue(stream)

    @finalizer
    def __del__(self) -> None:
        with self._device.current():
            for graph in (self._graph, *self._repeated.values()):
                if graph is not None:
                    graph.destroy()
