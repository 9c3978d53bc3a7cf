"""Tensors in device memory, which this runtime or another library owns."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.device.interface import Buffer, Device
from tcopt.runtime.feeds import tensor_of
from tcopt.runtime.foreign import CUDA, HOST, OPENCL, ForeignPlace, export, foreign_tensor
from tcopt.support.errors import InputError

Array = NDArray[Any]

_LEGACY_STREAM = 1
"""CUDA's legacy default stream, which a DLPack consumer means if it passes no stream."""
_NO_ORDER = -1
"""The `stream` argument of DLPack consumers that need no synchronisation by the producer."""


class DeviceArray:
    """A contiguous tensor in a device's memory.

    Other libraries can access CUDA memory without a copy, by DLPack, as in
    `torch.from_dlpack(array)`, or by `__cuda_array_interface__`. `numpy.asarray(array)` copies the
    tensor to the host.

    Attributes:
        device: the device.
        buffer: the memory, as an object of the device's runtime.
        size: size of the elements in bytes.
    """

    def __init__(
        self,
        device: Device,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        buffer: Buffer | None = None,
    ):
        """Wrap a buffer, or allocate one if it is None."""
        self.name, self.shape, self.dtype = name, shape, dtype
        self.size = prod(shape) * dtype.itemsize
        self.device = device
        self.buffer: Buffer = device.allocate(self.size) if buffer is None else buffer

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.device.name})"

    @property
    def address(self) -> int:
        """Address of the first element."""
        return self.device.address(self.buffer)

    def write(self, value: Any) -> None:
        """Overwrite the tensor with a NumPy array or a tensor on the same device.

        Raises:
            InputError: the shape or the type differs, or the source is on another device.
        """
        tensor = tensor_of(f'"{self.name}"', self.dtype, value, lambda: self.device)
        if isinstance(tensor, DeviceArray):
            self.copy_from(tensor)
            return
        self._check(tensor.shape, tensor.dtype)
        self.device.write(np.ascontiguousarray(tensor), self.buffer)

    def read(self) -> Array:
        """Wait for all earlier work on the device, and copy the tensor to an array."""
        array = np.empty(self.shape, self.dtype)
        self.device.read(self.buffer, array)
        return array

    def copy_from(self, other: DeviceArray) -> None:
        """Overwrite the tensor with another one of the same device, after all earlier work.

        Raises:
            InputError: the shape or the type differs.
        """
        self._check(other.shape, other.dtype)
        self.device.copy(other.buffer, self.buffer, self.size)

    def overlaps(self, other: DeviceArray) -> bool:
        """Whether the memory of two tensors overlaps."""
        first, second = self.address, other.address
        return first < second + other.size and second < first + self.size

    def _check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if (shape, dtype) != (self.shape, self.dtype):
            raise InputError(
                f'"{self.name}" is {self.dtype}{list(self.shape)}, '
                f"and was given {dtype}{list(shape)}"
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"an array of a tensor on {self.device.name} is a copy")
        array = self.read()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.place.kind, self.device.place.number or 0

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule, as the array API standard specifies it."""
        own = self.device.place
        wanted = own if dl_device is None else ForeignPlace(*dl_device)
        if wanted != own and wanted == HOST and copy is not False:
            return self.read().__dlpack__(max_version=max_version)
        if wanted != own:
            raise BufferError(f"the tensor is in the memory of {own}, not of {wanted}")
        if own.kind == OPENCL:
            raise BufferError("DLPack has no form of OpenCL's shared virtual memory")
        shared = self
        if copy:
            shared = DeviceArray(self.device, self.name, self.shape, self.dtype)
            shared.copy_from(self)
        if stream != _NO_ORDER:
            self.device.hold(_LEGACY_STREAM if stream is None else stream)
        owner = shared.buffer
        return export(own, shared.address, self.shape, self.dtype, owner, max_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        stream = self.device.stream
        if self.device.place.kind != CUDA or stream is None or self.dtype.kind not in "biufc":
            raise AttributeError("the tensor has no __cuda_array_interface__")
        return {
            "version": 3,
            "shape": self.shape,
            "strides": None,
            "typestr": self.dtype.str,
            "data": (self.address if self.size else 0, False),
            "stream": stream,
        }


def tensor_on(device: Device, value: Any, *, writable: bool = False) -> DeviceArray:
    """Return a tensor on a device that shares the memory of a foreign tensor.

    A strided or misaligned tensor is copied on the device if it is only read, and rejected if
    `writable` is set.

    Raises:
        BufferError: the owner does not export the tensor, or the device cannot use its memory.
    """
    if isinstance(value, DeviceArray) and value.device is device:
        return value
    found = foreign_tensor(value, device.stream, device.follow)
    if writable and found.is_read_only:
        raise BufferError("it is read-only")
    buffer = device.borrow(found, writable=writable)
    return DeviceArray(device, "", found.shape, found.dtype, buffer)
