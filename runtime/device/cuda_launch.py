"""Launches of kernels by `cuLaunchKernelEx`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_byte, c_int, c_uint, c_void_p
from typing import ClassVar

from tcopt.runtime.device.cuda_driver import ADDRESS, CudaDriver

_EARLY = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION."""

_VALUE_BYTES = 64


class _Attribute(Structure):
    """CUlaunchAttribute, with an int as its value."""

    _fields_: ClassVar = [
        ("id", c_int),
        ("padding", c_int),
        ("value", c_int),
        ("rest", c_byte * (_VALUE_BYTES - ctypes.sizeof(c_int))),
    ]


class _Config(Structure):
    """CUlaunchConfig."""

    _fields_: ClassVar = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    ]


class KernelLaunch:
    """A kernel with its grid and arguments.

    Args:
        values: addresses of buffers, then sizes; the driver reads as many of the lowest bytes as
            the kernel declares.
        shared: bytes of dynamic shared memory.
        action: for error messages.
    """

    def __init__(
        self,
        driver: CudaDriver,
        function: int,
        grid: Sequence[int],
        block: Sequence[int],
        values: Sequence[int],
        shared: int,
        action: str,
    ):
        self._driver, self._function, self._action = driver, function, action
        self._values = (ADDRESS * len(values))(*values)
        first, width = ctypes.addressof(self._values), ctypes.sizeof(ADDRESS)
        places = (first + width * number for number in range(len(values)))
        self._pointers = (c_void_p * len(values))(*places)
        self._early = _Attribute(id=_EARLY, value=1)
        attributes = ctypes.addressof(self._early)
        sizes = (c_uint * 3)(*grid), (c_uint * 3)(*block)
        self._config = _Config(*sizes, shared, None, attributes, 0)

    def enqueue(self, stream: int, *, early: bool) -> None:
        """Launch the kernel on a stream.

        Args:
            early: whether it may begin before the launch before it has finished.
        """
        self._config.stream, self._config.count = stream, int(early)
        config = ctypes.byref(self._config)
        arguments = (config, self._function, self._pointers, None)
        self._driver.call("cuLaunchKernelEx", *arguments, action=self._action)
