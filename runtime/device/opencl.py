"""OpenCL devices, through pyopencl.

Buffers are shared virtual memory: a kernel's argument is a pointer to any place of one, so that
it does not matter how a driver wants parts of buffers to be aligned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.opencl.names import kernel_name
from tcopt.runtime.device.steps import Copy, Launch, Step
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.errors import BackendError, UnsupportedError

if TYPE_CHECKING:
    import pyopencl

Array = NDArray[Any]

DEVICE_ENVIRONMENT = "TCOPT_OPENCL_DEVICE"
"""A part of the name of the device to take."""


@cache
def opencl_device() -> OpenCLDevice:
    """The device to use: the first whose name or platform has what the environment variable
    asks for; without one GPUs come first.

    Raises:
        UnsupportedError: pyopencl is not installed, or there is no device.
    """
    try:
        import pyopencl as cl
    except ImportError:
        raise UnsupportedError(
            "target opencl needs the package pyopencl", hint="pip install tcopt[opencl]"
        ) from None
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        platforms = []
    devices = [device for platform in platforms for device in platform.get_devices()]
    wanted = os.environ.get(DEVICE_ENVIRONMENT, "").lower()
    chosen = [d for d in devices if wanted in f"{d.platform.name} {d.name}".lower()]
    if not chosen:
        found = ", ".join(device.name for device in devices) or "none"
        raise UnsupportedError(
            f"there is no OpenCL device{f' like {wanted!r}' if wanted else ''}",
            hint=f"devices found: {found}; on Debian, pocl-opencl-icd runs kernels on the CPU",
        )
    chosen.sort(key=lambda device: not device.type & cl.device_type.GPU)
    return OpenCLDevice(chosen[0])


class OpenCLDevice:
    """A device and its queue."""

    def __init__(self, device: pyopencl.Device):
        import pyopencl as cl

        self._cl: Any = cl
        self.name = f"{device.name.strip()} ({device.platform.name.strip()})"
        if not device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
            raise UnsupportedError(
                f"{self.name} has no shared virtual memory",
                hint=f"{DEVICE_ENVIRONMENT} names another device",
            )
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context)

    def allocate(self, size: int) -> NDArray[np.uint8]:
        return self._cl.csvm_empty(self._context, max(size, 1), np.uint8, alignment=ALIGNMENT)

    def write(self, array: Array, buffer: NDArray[np.uint8]) -> None:
        if array.nbytes:
            target = self._pointer(buffer[: array.nbytes])
            self._cl.enqueue_copy(self._queue, target, array.reshape(-1), is_blocking=True)

    def read(self, buffer: NDArray[np.uint8], array: Array) -> None:
        if array.nbytes:
            source = self._pointer(buffer[: array.nbytes])
            self._cl.enqueue_copy(self._queue, array.reshape(-1), source, is_blocking=True)
        else:
            self._queue.finish()

    def prepare(
        self, source: str, steps: Sequence[Step], buffers: Sequence[NDArray[np.uint8]]
    ) -> Callable[[], None]:
        cl = self._cl
        try:
            program = cl.Program(self._context, source).build(["-cl-std=CL1.2"])
        except cl.Error as error:
            raise BackendError(f"{self.name} does not take the kernels: {error}") from error
        calls = [self._call(program, step, buffers) for step in steps]

        def run() -> None:
            for call in calls:
                call()

        return run

    def _call(
        self, program: Any, step: Step, buffers: Sequence[NDArray[np.uint8]]
    ) -> Callable[[], object]:
        cl, queue = self._cl, self._queue

        if isinstance(step, Copy):
            target, source = (
                self._pointer(buffers[place.buffer][place.offset : place.offset + step.size])
                for place in (step.target, step.source)
            )
            return lambda: cl.enqueue_copy(queue, target, source, is_blocking=False)
        assert isinstance(step, Launch)
        places = [self._pointer(buffers[p.buffer][p.offset :]) for p in step.arguments]
        # A kernel object of its own for each launch keeps its arguments from run to run.
        kernel = cl.Kernel(program, kernel_name(step.kernel))
        kernel.set_args(*places)
        total = tuple(g * b for g, b in zip(step.grid, step.block, strict=True))
        return lambda: cl.enqueue_nd_range_kernel(queue, kernel, total, step.block)

    def _pointer(self, bytes: NDArray[np.uint8]) -> Any:
        """Where a part of a buffer begins, as pyopencl takes it."""
        return self._cl.SVM(bytes)
