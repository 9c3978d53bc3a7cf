"""OpenCL devices, through pyopencl.

Buffers are shared virtual memory: a kernel argument can point to any offset in one, regardless of
the alignment that the driver requires of sub-buffers.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.opencl.emit.names import kernel_name
from tcopt.runtime.addresses import address_of
from tcopt.runtime.device.arrays import DeviceArray, tensor_on
from tcopt.runtime.device.interface import KernelSource, Times, lost, no_streams
from tcopt.runtime.device.steps import Copy, Launch, Step, is_empty
from tcopt.runtime.foreign import OPENCL, ForeignPlace, ForeignTensor
from tcopt.runtime.run_options import DeviceName
from tcopt.support.errors import BackendError, ResourceError, TcoptError, UnsupportedError
from tcopt.support.machines.alignment import ALIGNMENT

if TYPE_CHECKING:
    import pyopencl

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

DEVICE_ENVIRONMENT = "TCOPT_OPENCL_DEVICE"
"""Environment variable with a part of the default device's name."""


@cache
def opencl_device(which: DeviceName | None = None) -> OpenCLDevice:
    """Return a device; GPUs have the lowest numbers.

    Args:
        which: the device's number, or a part of the device's name, the platform's name or the
            platform's version; None for the one that the environment selects.
    Raises:
        UnsupportedError: pyopencl is not installed, or there is no such device.
    """
    if which is None:
        which = os.environ.get(DEVICE_ENVIRONMENT, "")
    devices = _devices()
    for number, device in enumerate(devices):
        platform = device.platform
        text = f"{platform.name} {platform.version} {device.name}".lower()
        if which == number or (isinstance(which, str) and which.lower() in text):
            return OpenCLDevice(device, number) if isinstance(which, int) else opencl_device(number)
    found = ", ".join(device.name for device in devices) or "none"
    wanted = f" like {which!r}" if which or which == 0 else ""
    raise UnsupportedError(
        f"there is no OpenCL device{wanted}",
        hint=f"devices found: {found}; on Debian, pocl-opencl-icd runs kernels on the CPU",
    )


def _devices() -> list[pyopencl.Device]:
    """Return all devices of the machine, in the order of their numbers.

    Raises:
        UnsupportedError: pyopencl is not installed.
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
    return sorted(devices, key=lambda device: not device.type & cl.device_type.GPU)


_ENABLED = re.compile(r"#pragma OPENCL EXTENSION (\w+) : enable")


def check_extensions(text: str, device: str, extensions: Sequence[str]) -> None:
    """Check that a device has the extensions that kernels enable.

    Args:
        extensions: the extensions that the device supports.
    Raises:
        UnsupportedError: the device lacks one of them.
    """
    missing = [name for name in dict.fromkeys(_ENABLED.findall(text)) if name not in extensions]
    if missing:
        half = "compile for target opencl, which stores f16 and computes in f32, or " * (
            "cl_khr_fp16" in missing
        )
        raise UnsupportedError(
            f"{device} lacks {' and '.join(missing)}, which the kernels need",
            hint=f"{half}choose another device by {DEVICE_ENVIRONMENT}",
        )


class OpenCLDevice:
    """OpenCL device and its queue."""

    stream = None

    def __init__(self, device: pyopencl.Device, number: int):
        import pyopencl as cl

        self._cl: Any = cl
        self.place = ForeignPlace(OPENCL, number)
        self.name = f"{device.name.strip()} ({device.platform.name.strip()})"
        if not device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
            raise UnsupportedError(
                f"{self.name} has no shared virtual memory",
                hint=f"{DEVICE_ENVIRONMENT} names another device",
            )
        self._context = cl.Context([device])
        self.queue = cl.CommandQueue(self._context)

    @contextmanager
    def doing(self, action: str) -> Generator[None]:
        """Convert exceptions of pyopencl to the project's.

        Args:
            action: the purpose of the calls, for messages: "copying 4 bytes to pocl".
        Raises:
            ResourceError: the device is out of memory.
            DeviceLostError: the queue is unusable.
            BackendError: the driver reports any other error.
        """
        try:
            yield
        except self._cl.Error as error:
            raise self._error(f"{action} failed: {_first_error(str(error))}", error) from error

    def _error(self, message: str, error: Exception) -> TcoptError:
        try:
            self.queue.finish()
        except self._cl.Error:
            return lost(self.name, message)
        if isinstance(error, self._cl.MemoryError):
            return ResourceError(message)
        return BackendError(message)

    def allocate(self, size: int) -> Bytes:
        with self.doing(f"allocating {size} bytes on {self.name}"):
            return self._cl.csvm_empty(self._context, max(size, 1), np.uint8, alignment=ALIGNMENT)

    def address(self, buffer: Bytes) -> int:
        return address_of(buffer)

    def tensor(self, value: Any, *, writable: bool = False) -> DeviceArray:
        return tensor_on(self, value, writable=writable)

    def borrow(self, tensor: ForeignTensor, *, writable: bool = False) -> Bytes:
        """Refuse other libraries' memory: kernels can only access shared virtual memory."""
        raise BufferError("kernels take OpenCL's shared virtual memory alone")

    def follow(self, stream: int) -> None:
        raise no_streams(self.name)

    def hold(self, stream: int) -> None:
        raise no_streams(self.name)

    def write(self, array: Array, buffer: Bytes) -> None:
        if array.nbytes:
            target = self._pointer(buffer[: array.nbytes])
            with self.doing(f"copying {array.nbytes} bytes to {self.name}"):
                self._cl.enqueue_copy(self.queue, target, _bytes_of(array), is_blocking=True)

    def read(self, buffer: Bytes, array: Array) -> None:
        if not array.nbytes:
            self.wait()
            return
        source = self._pointer(buffer[: array.nbytes])
        with self.doing(f"copying {array.nbytes} bytes from {self.name}"):
            self._cl.enqueue_copy(self.queue, _bytes_of(array), source, is_blocking=True)

    def copy(self, source: Bytes, target: Bytes, size: int) -> None:
        if size:
            places = (self._pointer(buffer[:size]) for buffer in (target, source))
            with self.doing(f"copying {size} bytes on {self.name}"):
                self._cl.enqueue_copy(self.queue, *places, is_blocking=False)

    def wait(self) -> None:
        with self.doing(f"running the kernels on {self.name}"):
            self.queue.finish()

    def load(self, sources: Sequence[KernelSource]) -> Any:
        """Build one program of all sources, which is faster than one for each."""
        if not sources:
            return None
        # Sources may share functions; definitions are separated by blank lines.
        parts = dict.fromkeys(p for source in sources for p in source.text.strip().split("\n\n"))
        text = "\n\n".join(parts) + "\n"
        check_extensions(text, self.name, self._context.devices[0].extensions.split())
        with self.doing(f"compiling the kernels for {self.name}"):
            return self._cl.Program(self._context, text).build(["-cl-std=CL1.2"])

    def prepare(self, kernels: Any, steps: Sequence[Step], buffers: Sequence[Bytes]) -> OpenCLSteps:
        return OpenCLSteps(self, [self._step(kernels, step, buffers) for step in steps])

    def timed_queue(self) -> Any:
        """Return a queue that records when each command starts and ends."""
        cl = self._cl
        properties = cl.command_queue_properties.PROFILING_ENABLE
        return cl.CommandQueue(self._context, properties=properties)

    def _step(self, program: Any, step: Step, buffers: Sequence[Bytes]) -> Callable[[Any], Any]:
        """Return a function that enqueues a step and returns its event."""
        if isinstance(step, Copy):
            action = f"a copy of {step.size} bytes on {self.name}"
        else:
            action = f"launching {step.description} on {self.name}"
        with self.doing(action):
            enqueue = self._call(program, step, buffers)

        def call(queue: Any) -> Any:
            with self.doing(action):
                return enqueue(queue)

        return call

    def _call(self, program: Any, step: Step, buffers: Sequence[Bytes]) -> Callable[[Any], Any]:
        """Return a function that enqueues a step by pyopencl, without error handling."""
        cl = self._cl

        if is_empty(step):
            return lambda queue: cl.enqueue_marker(queue)
        if isinstance(step, Copy):
            target, source = (
                self._pointer(buffers[place.buffer][place.offset : place.offset + step.size])
                for place in (step.target, step.source)
            )
            return lambda queue: cl.enqueue_copy(queue, target, source, is_blocking=False)
        assert isinstance(step, Launch)
        places = [self._pointer(buffers[p.buffer][p.offset :]) for p in step.arguments]
        # Each launch has its own kernel object, which keeps its arguments between runs.
        kernel = cl.Kernel(program, kernel_name(step.kernel))
        kernel.set_args(*places, *map(np.int32, step.sizes))
        total = tuple(g * b for g, b in zip(step.grid, step.block, strict=True))
        return lambda queue: cl.enqueue_nd_range_kernel(queue, kernel, total, step.block)

    def _pointer(self, bytes: Bytes) -> Any:
        """Return pyopencl's pointer to a part of a buffer."""
        return self._cl.SVM(bytes)


def _bytes_of(array: Array) -> Bytes:
    """Return a contiguous array's memory as writable bytes, which pyopencl can copy."""
    address = ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_uint8))
    return np.ctypeslib.as_array(address, (array.nbytes,))


def _first_error(said: str) -> str:
    """Return the first error line of a compiler's output, or else its first line."""
    lines = said.strip().splitlines()
    return next((line for line in lines if re.search(r"\berror:", line)), lines[0] if lines else "")


class OpenCLSteps:
    """Launches and copies bound to buffers."""

    def __init__(self, device: OpenCLDevice, calls: Sequence[Callable[[Any], Any]]):
        self._device = device
        self._calls = calls

    def start(self) -> None:
        for call in self._calls:
            call(self._device.queue)

    def start_checked(self, check: Callable[[], None]) -> None:
        check()
        for call in self._calls:
            call(self._device.queue)
            self._device.wait()
            check()

    def seconds(self, runs: int) -> float:
        self._device.wait()
        begin = time.perf_counter()
        for _ in range(runs):
            self.start()
        self._device.wait()
        return (time.perf_counter() - begin) / runs

    def times(self) -> Times:
        self._device.wait()
        queue = self._device.timed_queue()
        events = [call(queue) for call in self._calls]
        with self._device.doing(f"running the kernels on {self._device.name}"):
            queue.finish()
        spans = [(event.profile.start, event.profile.end) for event in events]
        return np.array(spans, np.int64).reshape(-1, 2)
