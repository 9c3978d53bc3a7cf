"""Bindings by ctypes for the functions of NVIDIA's driver that the CUDA runtime calls.

Only the driver library is needed: no CUDA toolkit, compiler or Python package. The runtime uses
primary contexts, which it shares with PyTorch, CuPy and pycuda.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any

from tcopt.support.errors import (
    BackendError,
    DeviceLostError,
    ResourceError,
    TcoptError,
    UnsupportedError,
)

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

HANDLE = c_void_p
ADDRESS = c_uint64

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(HANDLE), c_int),
    "cuCtxPushCurrent_v2": (HANDLE,),
    "cuCtxPopCurrent_v2": (POINTER(HANDLE),),
    "cuStreamCreate": (POINTER(HANDLE), c_uint),
    "cuStreamSynchronize": (HANDLE,),
    "cuStreamWaitEvent": (HANDLE, HANDLE, c_uint),
    "cuStreamBeginCapture_v2": (HANDLE, c_int),
    "cuStreamEndCapture": (HANDLE, POINTER(HANDLE)),
    "cuEventCreate": (POINTER(HANDLE), c_uint),
    "cuEventRecordWithFlags": (HANDLE, HANDLE, c_uint),
    "cuEventSynchronize": (HANDLE,),
    "cuEventElapsedTime": (POINTER(c_float), HANDLE, HANDLE),
    "cuEventDestroy_v2": (HANDLE,),
    "cuDeviceGetDefaultMemPool": (POINTER(HANDLE), c_int),
    "cuMemPoolGetAttribute": (HANDLE, c_int, c_void_p),
    "cuMemPoolSetAttribute": (HANDLE, c_int, c_void_p),
    "cuMemAlloc_v2": (POINTER(ADDRESS), c_size_t),
    "cuMemAllocAsync": (POINTER(ADDRESS), c_size_t, HANDLE),
    "cuMemFree_v2": (ADDRESS,),
    "cuMemFreeAsync": (ADDRESS, HANDLE),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuPointerGetAttribute": (c_void_p, c_int, ADDRESS),
    "cuMemcpyHtoDAsync_v2": (ADDRESS, c_void_p, c_size_t, HANDLE),
    "cuMemcpyDtoHAsync_v2": (c_void_p, ADDRESS, c_size_t, HANDLE),
    "cuMemcpyDtoDAsync_v2": (ADDRESS, ADDRESS, c_size_t, HANDLE),
    "cuModuleLoadDataEx": (POINTER(HANDLE), c_char_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleUnload": (HANDLE,),
    "cuModuleGetFunction": (POINTER(HANDLE), HANDLE, c_char_p),
    "cuFuncSetAttribute": (HANDLE, c_int, c_int),
    "cuLaunchKernel": (HANDLE, *(c_uint,) * 7, HANDLE, POINTER(c_void_p), POINTER(c_void_p)),
    "cuGraphInstantiateWithFlags": (POINTER(HANDLE), HANDLE, c_uint64),
    "cuGraphLaunch": (HANDLE, HANDLE),
    "cuGraphDestroy": (HANDLE,),
    "cuGraphExecDestroy": (HANDLE,),
}
"""Argument types by function, as declared in cuda.h; each returns an error code."""

MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""

DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""

_OUT_OF_MEMORY = 2
_NOT_SUPPORTED = 801
_ERROR_LOG_BUFFER, _ERROR_LOG_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES."""

_LOG_BYTES = 1 << 14
_STICKY = frozenset((214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721))
"""Errors that, according to cuda.h, make every later call on the context fail."""


class CudaDriver:
    """Functions of the driver, with error codes turned into exceptions.

    Args:
        library: has each function of `FUNCTIONS` as an attribute, as `ctypes.CDLL` does.
    Raises:
        UnsupportedError: the driver is too old.
    """

    def __init__(self, library: Any):
        self._functions: dict[str, Any] = {}
        for name, types in FUNCTIONS.items():
            function = getattr(library, name, None)
            if function is None:
                raise UnsupportedError(
                    f"NVIDIA's driver has no {name}", hint="update it to one for CUDA 11.8 or later"
                )
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function

    def code(self, function: str, *arguments: Any) -> int:
        """Call a function and return its error code, which is 0 on success."""
        return self._functions[function](*arguments)

    def call(self, function: str, *arguments: Any, action: str) -> None:
        """Call a function.

        Args:
            action: the purpose of the call, for error messages: "copying 4 bytes to %x".
        Raises:
            ResourceError: the device is out of memory.
            DeviceLostError: a kernel failed and made the context unusable.
            BackendError: the driver reports any other error.
        """
        if code := self._functions[function](*arguments):
            raise self.error(code, action)

    def get(self, function: str, kind: Any, *arguments: Any, action: str) -> Any:
        """Call a function that stores its result through its first argument, a pointer.

        Args:
            kind: the ctypes class of the result.
        """
        result = kind()
        self.call(function, ctypes.byref(result), *arguments, action=action)
        return result.value

    def error(self, code: int, action: str, log: str = "") -> TcoptError:
        """Return the exception for an error code."""
        message = f"{action} failed: {self._text(code)}{f': {log}' if log else ''}"
        if code == _OUT_OF_MEMORY:
            return ResourceError(message)
        return DeviceLostError(message) if code in _STICKY else BackendError(message)

    def load_module(self, text: str, action: str) -> int:
        """Compile PTX for the device of the current context and return the module's handle.

        Raises:
            BackendError: the driver rejects the text; the message has the driver's log.
        """
        module, log = HANDLE(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_ERROR_LOG_BUFFER, _ERROR_LOG_SIZE)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        arguments = (ctypes.byref(module), text.encode(), 2, options, values)
        if code := self.code("cuModuleLoadDataEx", *arguments):
            raise self.error(code, action, log.value.decode(errors="replace").strip())
        assert module.value is not None
        return module.value

    def device_name(self, device: int) -> str:
        """Return the name of a device, such as `NVIDIA H100`."""
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), device, action="asking a device's name")
        return name.value.decode(errors="replace")

    def is_unsupported(self, code: int) -> bool:
        """Whether an error code says that the device lacks a feature."""
        return code == _NOT_SUPPORTED

    def _text(self, code: int) -> str:
        """Return the text of an error code: `an illegal memory access ... (CUDA_ERROR_...)`."""
        texts: list[str] = []
        for function in ("cuGetErrorString", "cuGetErrorName"):
            text = c_char_p()
            if self.code(function, code, ctypes.byref(text)) or text.value is None:
                return f"error {code}"
            texts.append(text.value.decode(errors="replace"))
        return f"{texts[0]} ({texts[1]})"


def open_library() -> Any:
    """Load the driver library.

    Raises:
        OSError: the library does not exist or cannot be loaded.
    """
    return ctypes.CDLL(LIBRARY)


@cache
def cuda_driver() -> CudaDriver:
    """Return the initialised driver.

    Raises:
        UnsupportedError: the driver is missing or too old, or finds no device.
    """
    hint = "tcopt-compile --target cuda:sm_80 writes code without a device"
    try:
        library = open_library()
    except OSError as error:
        message = f"target cuda needs NVIDIA's driver: {error}"
        raise UnsupportedError(message, hint=hint) from None
    driver = CudaDriver(library)
    if code := driver.code("cuInit", 0):
        reason = driver.error(code, "cuInit").message
        raise UnsupportedError(f"there is no CUDA device: {reason}", hint=hint)
    return driver
