"""CUDA devices: their primary contexts, streams, memory and kernels."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, SupportsInt

from numpy.typing import NDArray

from tcopt.backends.ptx.names import dynamic_sizes, entry_name
from tcopt.runtime.device.arrays import DeviceArray, tensor_on
from tcopt.runtime.device.cuda_driver import (
    DYNAMIC_SHARED,
    HANDLE,
    MAJOR,
    MINOR,
    CudaDriver,
    cuda_driver,
)
from tcopt.runtime.device.cuda_events import Event
from tcopt.runtime.device.cuda_graph import Graph
from tcopt.runtime.device.cuda_memory import DeviceMemory, ForeignMemory, PinnedStaging, open_pool
from tcopt.runtime.device.cuda_steps import CudaKernels, CudaSteps, cuda_step
from tcopt.runtime.device.gather import gather
from tcopt.runtime.device.interface import KernelSource, lost
from tcopt.runtime.device.steps import Step
from tcopt.runtime.foreign import CUDA, ForeignPlace, ForeignTensor
from tcopt.runtime.run_options import DeviceName
from tcopt.support.errors import DeviceLostError, UnsupportedError
from tcopt.support.machines.alignment import ALIGNMENT

Array = NDArray[Any]

DEVICE_ENVIRONMENT = "TCOPT_CUDA_DEVICE"
"""Environment variable with the number of the default device; 0 if it is not set."""

_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: the default stream can be used while this stream is captured."""

_ORDINAL = 9
"""CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL."""

_MOST_GATHERS = 64
"""Maximum number of cached kernels that copy strided tensors, one for each shape and stride."""


@cache
def cuda_device(which: DeviceName | None = None) -> CudaDevice:
    """Return a device.

    Args:
        which: the device's number; None for the one that the environment selects.
    Raises:
        UnsupportedError: the machine has no driver or no such device.
    """
    driver = cuda_driver()
    count = driver.get("cuDeviceGetCount", ctypes.c_int, action="counting devices")
    wanted = str(os.environ.get(DEVICE_ENVIRONMENT, "0") if which is None else which)
    if not wanted.isdecimal() or int(wanted) >= count:
        raise UnsupportedError(
            f"there is no CUDA device {wanted}", hint=f"devices have numbers from 0 to {count - 1}"
        )
    number = int(wanted)
    return CudaDevice(driver, number) if isinstance(which, int) else cuda_device(number)


@cache
def local_capability(which: DeviceName | None = None) -> int | None:
    """Return the compute capability of a device, such as 80 for sm_80; None without a device."""
    try:
        major, minor = cuda_device(which).capability
    except UnsupportedError:
        return None
    return 10 * major + minor


class CudaDevice:
    """CUDA device with one stream, on which all its work runs.

    Attributes:
        capability: major and minor compute capability.
        stream: handle of the stream, which synchronises with CUDA's default stream.
        has_pool: whether memory is allocated from the driver's memory pool.
    """

    def __init__(self, driver: CudaDriver, number: int):
        self.driver = driver
        device = driver.get("cuDeviceGet", ctypes.c_int, number, action=f"opening device {number}")
        self.name = driver.device_name(device)
        action = f"opening {self.name}"
        major, minor = (
            driver.get("cuDeviceGetAttribute", ctypes.c_int, attribute, device, action=action)
            for attribute in (MAJOR, MINOR)
        )
        self.capability = int(major), int(minor)
        self.place = ForeignPlace(CUDA, number)
        self._failure = ""
        self._context: int = driver.get("cuDevicePrimaryCtxRetain", HANDLE, device, action=action)
        with self.current():
            self.stream: int = driver.get("cuStreamCreate", HANDLE, 0, action=action)
            arguments = (HANDLE, _NON_BLOCKING)
            self._capture_stream: int = driver.get("cuStreamCreate", *arguments, action=action)
            self.has_pool = open_pool(driver, device, action)
            self._order = Event(self)
        # Guards the capture stream and the event that orders streams.
        self._lock = Lock()
        self._staging = PinnedStaging(self)
        self._gathers: dict[KernelSource, CudaKernels] = {}

    @contextmanager
    def current(self) -> Generator[None]:
        """Make the device's context current in this thread.

        Raises:
            DeviceLostError: a kernel failed, in this block or earlier.
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
        """Allocate device memory, aligned to 256 bytes."""
        with self.current():
            return DeviceMemory(self, size)

    def address(self, buffer: SupportsInt) -> int:
        return int(buffer)

    def write(self, array: Array, buffer: SupportsInt) -> None:
        self._staging.write(array.ctypes.data, int(buffer), array.nbytes)

    def read(self, buffer: SupportsInt, array: Array) -> None:
        if array.nbytes:
            self._staging.read(int(buffer), array.ctypes.data, array.nbytes)
        else:
            self.wait()

    def copy(self, source: SupportsInt, target: SupportsInt, size: int) -> None:
        if size:
            arguments = (int(target), int(source), size, self.stream)
            action = f"copying {size} bytes on {self.name}"
            with self.current():
                self.driver.call("cuMemcpyDtoDAsync_v2", *arguments, action=action)

    def wait(self) -> None:
        with self.current():
            self.synchronize()

    def synchronize(self, action: str = "") -> None:
        """Wait for the stream; the device's context must be current.

        Raises:
            BackendError: a kernel failed.
        """
        action = action or f"running the kernels on {self.name}"
        self.driver.call("cuStreamSynchronize", self.stream, action=action)

    def follow(self, stream: int) -> None:
        self._wait(self.stream, stream)

    def hold(self, stream: int) -> None:
        self._wait(stream, self.stream)

    def _wait(self, later: int, earlier: int) -> None:
        """Make later work on one stream wait for the work on another."""
        if later != earlier:
            with self._lock, self.current():
                self._order.record(earlier)
                self._order.hold(later)

    def tensor(self, value: Any, *, writable: bool = False) -> DeviceArray:
        return tensor_on(self, value, writable=writable)

    def borrow(self, tensor: ForeignTensor, *, writable: bool = False) -> SupportsInt:
        if not tensor.size:
            return self.allocate(0)
        if tensor.place.number is None:
            self._check_ordinal(tensor.address)
        memory = ForeignMemory(tensor.address, tensor.owner)
        if tensor.is_contiguous and tensor.address % ALIGNMENT == 0:
            return memory
        if writable:
            raise BufferError(f"it is not contiguous at a multiple of {ALIGNMENT} bytes")
        target = self.allocate(tensor.size)
        if tensor.is_contiguous:
            self.copy(memory, target, tensor.size)
        else:
            self._gather(tensor, memory, target)
        return target

    def _check_ordinal(self, address: int) -> None:
        """Check that memory is on this device."""
        action = "asking for the device of an address"
        arguments = (_ORDINAL, address)
        with self.current():
            found = self.driver.get(
                "cuPointerGetAttribute", ctypes.c_int, *arguments, action=action
            )
        if found != self.place.number:
            raise BufferError(
                f"it is in the memory of {ForeignPlace(CUDA, found)}, not of {self.place}"
            )

    def _gather(self, tensor: ForeignTensor, source: ForeignMemory, target: DeviceMemory) -> None:
        """Copy a strided tensor to contiguous memory, on the device."""
        text, launch = gather(tensor)
        if text not in self._gathers:
            if len(self._gathers) == _MOST_GATHERS:
                self.wait()
                self._gathers.clear()
            self._gathers[text] = self.load([text])
        step = cuda_step(self, self._gathers[text], launch, [target, source])
        with self.current():
            step.enqueue(self.stream)

    def load(self, sources: Sequence[KernelSource]) -> CudaKernels:
        kernels = CudaKernels(self)
        with self.current():
            for source in sources:
                action = f"compiling {', '.join(source.kernels) or 'kernels'} for {self.name}"
                module = self.driver.load_module(source.text, action)
                kernels.add(module)
                dynamic = dynamic_sizes(source.text)
                for name in source.kernels:
                    entry, action = entry_name(name), f"looking up kernel {name}"
                    arguments = (HANDLE, module, entry.encode())
                    function = self.driver.get("cuModuleGetFunction", *arguments, action=action)
                    kernels.functions[name] = function
                    kernels.shared[name] = size = dynamic.get(entry, 0)
                    if size:
                        action = f"requesting {size} bytes of shared memory for kernel {name}"
                        self.driver.call(
                            "cuFuncSetAttribute", function, DYNAMIC_SHARED, size, action=action
                        )
        return kernels

    def prepare(
        self, kernels: CudaKernels, steps: Sequence[Step], buffers: Sequence[SupportsInt]
    ) -> CudaSteps:
        with self.current():
            return CudaSteps(self, [cuda_step(self, kernels, step, buffers) for step in steps])

    def capture(self, work: Callable[[int], None]) -> Graph | None:
        """Record work as a graph, see `Graph.capture`.

        The capture uses a stream of its own, so that other threads can still use `stream`.
        """
        with self._lock:
            return Graph.capture(self.driver, self._capture_stream, work)
