"""A CUDA driver without a device: its functions as C callbacks, memory of this process, and kernels
that the PTX interpreter executes.

Signatures are written here from cuda.h, apart from those of the binding, so that a call through a
wrong one goes wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

import numpy as np
import pytest

from tcopt.interpreters.ptx.faults import PtxFaultError
from tcopt.interpreters.ptx.launch import PtxProgram, check_launch
from tcopt.runtime.device import cuda, cuda_driver
from tcopt.support.errors import TcoptError

ERRORS = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    801: ("CUDA_ERROR_NOT_SUPPORTED", "operation not supported"),
    900: ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when capturing"),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}
CONTEXT, STREAM, EVENT = 0x1000, 0x2000, 0x4000
STATIC_SHARED, MOST_SHARED = 48 << 10, 227 << 10
DEFAULT_STREAMS = (None, 1, 2)
POINTER = c_void_p
_FUNCTIONS: dict[str, tuple[Any, Callable[..., int]]] = {}


def driver_function(*types: Any) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Mark a method as a function of the driver with these arguments."""

    def mark(function: Callable[..., int]) -> Callable[..., int]:
        _FUNCTIONS[function.__name__] = (ctypes.CFUNCTYPE(c_int, *types), function)
        return function

    return mark


def _put(where: int, kind: Any, value: Any) -> int:
    kind.from_address(where).value = value
    return 0


class CudaMachine:
    """The driver's state; its attributes are the driver's functions, as in `ctypes.CDLL`.

    Attributes:
        capability: the devices'.
        devices: how many there are; `has_pool`: whether they have memory pools.
        memory: what is allocated, by address; of which device it is, is in `owners`.
        host_memory: page-locked memory of the host, by address.
        modules: those that are loaded, by handle.
        streams: the device of each, by handle.
        waits: streams that were made to wait for an event, each after the stream of the event.
        most: bytes that can be allocated.
        launches: name, grid and block of each kernel that ran.
        graphs: launches of graphs.
        captured: how many graphs were captured.
        faults: why kernels failed; the first one ends the context.
        failing: error codes of functions that fail whatever they are given.
        broken: exceptions of this driver's own functions.
    """

    def __init__(self, capability: tuple[int, int] = (8, 7)):
        self.capability = capability
        self.memory: dict[int, np.ndarray] = {}
        self.most = 1 << 30
        self.launches: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
        self.graphs = 0
        self.captured = 0
        self.faults: list[PtxFaultError] = []
        self.failing: dict[str, int] = {}
        self.broken: list[Exception] = []
        self.clock = 0.0
        self.devices = 1
        self.has_pool = True
        self.owners: dict[int, int] = {}
        self.host_memory: dict[int, Any] = {}
        self.modules: dict[int, PtxProgram] = {}
        self.streams: dict[int, int] = {}
        self.waits: list[tuple[int | None, int | None]] = []
        self._current: list[int] = []
        self._functions: list[tuple[PtxProgram, str]] = []
        self._dynamic: dict[int, int] = {}
        self._loaded = 0
        self._events: dict[int, tuple[float, int | None]] = {}
        self._captures: dict[int, list[Callable[[], int]]] = {}
        self._pool = c_ulonglong(0)
        self._graphs: dict[int, list[Callable[[], int]]] = {}
        self._texts: list[Any] = []
        for name, (prototype, function) in _FUNCTIONS.items():
            setattr(self, name, prototype(self._guarded(name, function)))

    def _guarded(self, name: str, function: Callable[..., int]) -> Callable[..., int]:
        """A function that fails as the driver does after a fault, or without a context."""
        needs_context = name[2:5] in ("Mem", "Str", "Mod", "Lau", "Eve", "Gra")

        def call(*arguments: Any) -> int:
            if name in self.failing:
                if name == "cuStreamEndCapture":
                    self._captures.clear()
                return self.failing[name]
            if needs_context and not self.depth:
                return 201
            if needs_context and self.faults:
                return 700
            try:
                return function(self, *arguments)
            except Exception as error:
                # Nothing passes a callback; the context raises it at its end.
                self.broken.append(error)
                return 999

        return call

    @property
    def depth(self) -> int:
        """How many contexts were entered and not left."""
        return len(self._current)

    @property
    def live_bytes(self) -> int:
        """Bytes that are allocated, the host's page-locked ones too."""
        return sum(map(len, (*self.memory.values(), *self.host_memory.values())))

    def allocate(self, size: int, device: int) -> int:
        """The address of new memory of a device."""
        whole = np.full(size + 256, 0xAB, np.uint8)
        array = whole[-whole.ctypes.data % 256 :][:size]
        self.memory[array.ctypes.data] = array
        self.owners[array.ctypes.data] = device
        return array.ctypes.data

    def inside(self, address: int, size: int) -> bool:
        """Whether some bytes are all in one allocation of the current context's device."""
        return any(
            start <= address
            and address + size <= start + array.nbytes
            and self.owners[start] == self._current[-1]
            for start, array in self.memory.items()
        )

    def _takes(self, stream: int | None) -> bool:
        """Whether a stream is one of the current context's device."""
        return stream in DEFAULT_STREAMS or self.streams.get(stream) == self._current[-1]

    def _enqueue(self, stream: int | None, work: Callable[[], int]) -> int:
        """Do something, or record it."""
        if not self._takes(stream):
            return 1
        if stream not in self._captures:
            return work()
        self._captures[stream].append(work)
        return 0

    @driver_function(c_uint)
    def cuInit(self, flags: int) -> int:
        return 0 if flags == 0 else 1

    @driver_function(c_int, POINTER)
    def cuGetErrorName(self, code: int, text: int) -> int:
        return self._text(code, text, 0)

    @driver_function(c_int, POINTER)
    def cuGetErrorString(self, code: int, text: int) -> int:
        return self._text(code, text, 1)

    def _text(self, code: int, text: int, number: int) -> int:
        if code not in ERRORS:
            return 1
        self._texts.append(c_char_p(ERRORS[code][number].encode()))
        return _put(text, c_char_p, self._texts[-1].value)

    @driver_function(POINTER)
    def cuDeviceGetCount(self, count: int) -> int:
        return _put(count, c_int, self.devices)

    @driver_function(POINTER, c_int)
    def cuDeviceGet(self, device: int, number: int) -> int:
        return _put(device, c_int, 40 + number) if number < self.devices else 101

    @driver_function(POINTER, c_int, c_int)
    def cuDeviceGetName(self, text: int, size: int, device: int) -> int:
        name = b"Stand-in"[: size - 1] + b"\0"
        ctypes.memmove(text, name, len(name))
        return 0 if device >= 40 else 1

    @driver_function(POINTER, c_int, c_int)
    def cuDeviceGetAttribute(self, value: int, attribute: int, device: int) -> int:
        major, minor = self.capability
        return _put(value, c_int, {75: major, 76: minor, 115: self.has_pool}[attribute])

    @driver_function(POINTER, c_int)
    def cuDeviceGetDefaultMemPool(self, pool: int, device: int) -> int:
        return _put(pool, POINTER, device)

    @driver_function(POINTER, c_int, POINTER)
    def cuMemPoolGetAttribute(self, pool: int, attribute: int, value: int) -> int:
        return _put(value, c_ulonglong, self._pool.value) if attribute == 4 else 1

    @driver_function(POINTER, c_int, POINTER)
    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> int:
        self._pool.value = c_ulonglong.from_address(value).value
        return 0 if attribute == 4 else 1

    @driver_function(POINTER, c_int)
    def cuDevicePrimaryCtxRetain(self, context: int, device: int) -> int:
        return _put(context, POINTER, CONTEXT + device - 40)

    @driver_function(POINTER)
    def cuCtxPushCurrent_v2(self, context: int) -> int:
        self._current.append(context - CONTEXT)
        return 0 if 0 <= context - CONTEXT < self.devices else 201

    @driver_function(POINTER)
    def cuCtxPopCurrent_v2(self, context: int) -> int:
        if not self._current:
            return 201
        return _put(context, POINTER, CONTEXT + self._current.pop())

    @driver_function(POINTER, c_uint)
    def cuStreamCreate(self, stream: int, flags: int) -> int:
        self.streams[number := STREAM + len(self.streams)] = self._current[-1]
        return _put(stream, POINTER, number)

    @driver_function(POINTER)
    def cuStreamSynchronize(self, stream: int | None) -> int:
        if not self._takes(stream):
            return 1
        return 900 if stream in self._captures else 0

    @driver_function(POINTER, POINTER, c_uint)
    def cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> int:
        self.waits.append((self._events[event][1], stream))
        return 0 if self._takes(stream) and not flags else 1

    @driver_function(POINTER, c_int)
    def cuStreamBeginCapture_v2(self, stream: int, mode: int) -> int:
        self._captures[stream] = []
        return 0 if self._takes(stream) else 1

    @driver_function(POINTER, POINTER)
    def cuStreamEndCapture(self, stream: int, graph: int) -> int:
        number = 0x3000 + len(self._graphs)
        self.captured += 1
        self._graphs[number] = self._captures.pop(stream)
        return _put(graph, POINTER, number)

    @driver_function(POINTER, POINTER, c_ulonglong)
    def cuGraphInstantiateWithFlags(self, executable: int, graph: int, flags: int) -> int:
        return _put(executable, POINTER, graph)

    @driver_function(POINTER, POINTER)
    def cuGraphLaunch(self, graph: int, stream: int | None) -> int:
        self.graphs += 1
        return max((self._enqueue(stream, work) for work in self._graphs[graph]), default=0)

    @driver_function(POINTER)
    def cuGraphDestroy(self, graph: int) -> int:
        return 0

    @driver_function(POINTER)
    def cuGraphExecDestroy(self, graph: int) -> int:
        self._graphs[graph] = []
        return 0

    @driver_function(POINTER, c_uint)
    def cuEventCreate(self, event: int, flags: int) -> int:
        self._events[number := EVENT + len(self._events)] = (-1.0, None)
        return _put(event, POINTER, number)

    @driver_function(POINTER, POINTER, c_uint)
    def cuEventRecordWithFlags(self, event: int, stream: int | None, flags: int) -> int:
        # Inside of a capture, an event that is not external is only a dependency.
        if flags != (stream in self._captures):
            return 1

        def record() -> int:
            self.clock += 0.25
            self._events[event] = (self.clock, stream)
            return 0

        return self._enqueue(stream, record)

    @driver_function(POINTER)
    def cuEventSynchronize(self, event: int) -> int:
        return 0

    @driver_function(POINTER, POINTER, POINTER)
    def cuEventElapsedTime(self, milliseconds: int, begin: int, end: int) -> int:
        return _put(milliseconds, c_float, self._events[end][0] - self._events[begin][0])

    @driver_function(POINTER)
    def cuEventDestroy_v2(self, event: int) -> int:
        return 0

    @driver_function(POINTER, c_size_t)
    def cuMemAlloc_v2(self, address: int, size: int) -> int:
        if not size:
            return 1
        if sum(array.nbytes for array in self.memory.values()) + size > self.most:
            return 2
        return _put(address, c_ulonglong, self.allocate(size, self._current[-1]))

    @driver_function(POINTER, c_size_t, POINTER)
    def cuMemAllocAsync(self, address: int, size: int, stream: int | None) -> int:
        if not self._takes(stream):
            return 1
        return CudaMachine.cuMemAlloc_v2(self, address, size)

    @driver_function(c_ulonglong)
    def cuMemFree_v2(self, address: int) -> int:
        return 0 if self.inside(address, 0) and self.memory.pop(address, None) is not None else 1

    @driver_function(c_ulonglong, POINTER)
    def cuMemFreeAsync(self, address: int, stream: int | None) -> int:
        return CudaMachine.cuMemFree_v2(self, address) if self._takes(stream) else 1

    @driver_function(POINTER, c_size_t, c_uint)
    def cuMemHostAlloc(self, address: int, size: int, flags: int) -> int:
        array = (ctypes.c_uint8 * size)()
        self.host_memory[ctypes.addressof(array)] = array
        return _put(address, POINTER, ctypes.addressof(array))

    @driver_function(POINTER, c_int, c_ulonglong)
    def cuPointerGetAttribute(self, value: int, attribute: int, address: int) -> int:
        for start, array in self.memory.items():
            if attribute == 9 and start <= address < start + array.nbytes:
                return _put(value, c_int, self.owners[start])
        return 1

    @driver_function(c_ulonglong, POINTER, c_size_t, POINTER)
    def cuMemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        return self._copy(stream, target, source, size, target)

    @driver_function(POINTER, c_ulonglong, c_size_t, POINTER)
    def cuMemcpyDtoHAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        return self._copy(stream, target, source, size, source)

    @driver_function(c_ulonglong, c_ulonglong, c_size_t, POINTER)
    def cuMemcpyDtoDAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        return self._copy(stream, target, source, size, target, source)

    def _copy(
        self, stream: int | None, target: int, source: int, size: int, *on_device: int
    ) -> int:
        if not all(self.inside(address, size) for address in on_device):
            return 1

        def work() -> int:
            ctypes.memmove(target, source, size)
            return 0

        return self._enqueue(stream, work)

    @driver_function(POINTER, c_char_p, c_uint, POINTER, POINTER)
    def cuModuleLoadDataEx(
        self, module: int, text: bytes, count: int, options: int, values: int
    ) -> int:
        try:
            program = PtxProgram(text.decode())
        except TcoptError as error:
            log, size = (c_void_p * 2).from_address(values)
            message = str(error).encode()[: size - 1] + b"\0"
            ctypes.memmove(log, message, len(message))
            return 218
        self._loaded += 1
        self.modules[self._loaded] = program
        return _put(module, POINTER, self._loaded)

    @driver_function(POINTER)
    def cuModuleUnload(self, module: int) -> int:
        return 1 if self.modules.pop(module, None) is None else 0

    @driver_function(POINTER, POINTER, c_char_p)
    def cuModuleGetFunction(self, function: int, module: int, name: bytes) -> int:
        program = self.modules[module]
        if name.decode() not in program.module.kernels:
            return 500
        self._functions.append((program, name.decode()))
        return _put(function, POINTER, len(self._functions))

    @driver_function(POINTER, c_int, c_int)
    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> int:
        if attribute != 8 or not 0 <= value <= MOST_SHARED:
            return 1
        self._dynamic[function] = value
        return 0

    @driver_function(POINTER, *(c_uint,) * 7, POINTER, POINTER, POINTER)
    def cuLaunchKernel(self, function: int, *rest: int) -> int:
        program, name = self._functions[function - 1]
        grid, block, (shared, stream, parameters, extra) = rest[:3], rest[3:6], rest[6:]
        kernel = program.module.kernels[name]
        count = len(kernel.parameters)
        places = (c_void_p * count).from_address(parameters)
        sizes = kernel.parameters.values()
        values = [
            int.from_bytes(ctypes.string_at(place, size), "little")  # type: ignore[arg-type]
            for place, size in zip(places, sizes, strict=True)
        ]
        try:
            check_launch(kernel, grid, block, count)  # type: ignore[arg-type]
        except TcoptError:
            return 1
        pointers = [
            v for v, size in zip(values, sizes, strict=True) if size == ctypes.sizeof(POINTER)
        ]
        most = self._dynamic.get(function, STATIC_SHARED)
        if shared > most or extra or not all(self.inside(pointer, 1) for pointer in pointers):
            return 1

        def work() -> int:
            ranges = [(start, start + array.nbytes) for start, array in self.memory.items()]
            self.launches.append((name, grid, block))
            try:
                program.launch(name, grid, block, values, ranges, shared)  # type: ignore[arg-type]
            except PtxFaultError as fault:
                # A device reports it at the next synchronisation.
                self.faults.append(fault)
            return 0

        return self._enqueue(stream, work)


@contextmanager
def cuda_machine(
    capability: tuple[int, int] = (8, 7), machine: CudaMachine | None = None
) -> Iterator[CudaMachine]:
    """Let the CUDA runtime find this driver while the context is open.

    Raises:
        Exception: a function of the driver failed in an unexpected way.
    """
    machine = machine or CudaMachine(capability)
    cached = (cuda.cuda_device, cuda.local_capability, cuda_driver.cuda_driver)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_driver, "open_library", lambda: machine)
        for each in cached:
            each.cache_clear()
        try:
            yield machine
        finally:
            for each in cached:
                each.cache_clear()
            if machine.broken:
                raise machine.broken[0]
