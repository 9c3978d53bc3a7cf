"""Tensors of other libraries in the memory of a stand-in for a CUDA driver."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from machines.cuda_machine import CudaMachine
from tcopt.runtime.foreign import (
    CUDA,
    READ_ONLY,
    DLManagedTensorVersioned,
    ForeignPlace,
    contiguous_strides,
    export,
)

Array = np.ndarray[Any, Any]


class CudaMemory:
    """A tensor on a device.

    Args:
        array: its values. If it is a view, the tensor is the same view of a copy of the base.
        offset: bytes between the start of an allocation and the tensor.
    """

    def __init__(
        self,
        machine: CudaMachine,
        array: Array,
        device: int = 0,
        *,
        offset: int = 0,
        is_read_only: bool = False,
    ):
        base = array if array.base is None else array.base
        assert isinstance(base, np.ndarray)
        self.machine, self.device = machine, device
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.start = machine.allocate(base.nbytes + offset, device)
        self.address = self.start + offset + array.ctypes.data - base.ctypes.data
        self.is_read_only = is_read_only
        ctypes.memmove(self.start + offset, base.ctypes.data, base.nbytes)

    @property
    def array(self) -> Array:
        """The values, without a copy."""
        raw = self.machine.memory[self.start]
        offset = self.address - self.start
        return np.ndarray(self.shape, self.dtype, raw.data, offset, self.strides)


class CudaTensor(CudaMemory):
    """A tensor that gives itself by DLPack, as PyTorch's do.

    Attributes:
        streams: those that consumers gave.
    """

    def __init__(self, machine: CudaMachine, array: Array, device: int = 0, **layout: Any):
        super().__init__(machine, array, device, **layout)
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(self, *, stream: int | None = None, max_version: Any = None) -> Any:
        self.streams.append(stream)
        place = ForeignPlace(CUDA, self.device)
        capsule = export(place, self.address, self.shape, self.dtype, self, max_version)
        name = b"dltensor_versioned"
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        managed = DLManagedTensorVersioned.from_address(get(capsule, name))
        managed.flags |= READ_ONLY * self.is_read_only
        for axis, stride in enumerate(self.strides):
            managed.tensor.strides[axis] = stride // self.dtype.itemsize
        return capsule


class CudaArray(CudaMemory):
    """A tensor that gives itself by `__cuda_array_interface__` alone, as Numba's did."""

    stream: int | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        is_plain = self.strides == contiguous_strides(self.shape, self.dtype.itemsize)
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.is_read_only),
            "strides": None if is_plain else self.strides,
            "stream": self.stream,
        }
