"""Exchange of tensors with other libraries, by DLPack and `__cuda_array_interface__`.

The DLPack structures follow version 1 of its header, and the Python protocol the array API
standard. The CUDA array interface is read in its version 3.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcopt.support.data.named_dtypes import named_dtype
from tcopt.support.processes.finalizers import finalizer

Array = NDArray[Any]

CPU, CUDA, CUDA_HOST, OPENCL, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 4, 11, 13
"""Values of DLDeviceType."""

VERSION = (1, 0)
"""DLPack version that is requested and exported."""

_NAMES = {CUDA: "CUDA device", OPENCL: "OpenCL device", CUDA_MANAGED: "CUDA device"}
_NUMPY_KINDS = {0: "int", 1: "uint", 2: "float", 5: "complex"}
_OTHER_TYPES = {
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
    (17, 4): "float4_e2m1fn",
    (0, 4): "int4",
    (1, 4): "uint4",
    (0, 2): "int2",
    (1, 2): "uint2",
}
"""NumPy names of element types by DLDataTypeCode and bits."""
READ_ONLY, PADDED = 1, 4
"""Flags of a tensor; if it is padded, each element narrower than a byte takes one byte."""


class ForeignPlace(NamedTuple):
    """Memory space of a tensor: the DLPack device type, and the number of the device.

    The number is None if the owner reports only the type.
    """

    kind: int
    number: int | None = 0

    @property
    def is_host(self) -> bool:
        """Whether code on the host can access the memory."""
        return self.kind in (CPU, CUDA_HOST, ROCM_HOST)

    def is_on(self, device: ForeignPlace) -> bool:
        """Whether a device can access the memory."""
        kind = CUDA if self.kind == CUDA_MANAGED else self.kind
        return kind == device.kind and self.number in (None, device.number)

    def __str__(self) -> str:
        if self.is_host:
            return "the host"
        number = "" if self.number is None else f" {self.number}"
        return f"{_NAMES.get(self.kind, f'device type {self.kind}, device')}{number}"


HOST = ForeignPlace(CPU)


class DLDevice(ctypes.Structure):
    """DLPack's struct for a device."""

    _fields_ = (("kind", c_int32), ("number", c_int32))


class DLDataType(ctypes.Structure):
    """DLPack's struct for an element type."""

    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class DLTensor(ctypes.Structure):
    """DLPack's struct for a tensor; strides are in elements, and null if it is contiguous."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("rank", c_int32),
        ("type", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("offset", c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """DLPack's struct for a tensor and its owner, before version 1."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class DLManagedTensorVersioned(ctypes.Structure):
    """DLPack's struct for a tensor and its owner, since version 1."""

    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", c_uint64),
        ("tensor", DLTensor),
    )


CAPSULES: dict[bytes, Any] = {
    b"dltensor_versioned": DLManagedTensorVersioned,
    b"dltensor": DLManagedTensor,
}
"""Struct types by the name of an unconsumed capsule; consuming a capsule renames it."""
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_python = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_char_p)(
    ("PyCapsule_IsValid", _python)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, c_char_p)(
    ("PyCapsule_GetPointer", _python)
)
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_char_p)(
    ("PyCapsule_SetName", _python)
)
_USED = {name: b"used_" + name for name in CAPSULES}
"""Names of consumed capsules. Capsules hold pointers to these strings."""


class _Managed:
    """Consumed managed tensor; its deleter is called when this object is freed."""

    def __init__(self, address: int, deleter: int | None):
        self._address, self._deleter = address, deleter

    @finalizer
    def __del__(self) -> None:
        if self._deleter:
            DELETER(self._deleter)(self._address)


@dataclass(frozen=True)
class ForeignTensor:
    """Tensor in memory that another library owns.

    Attributes:
        address: address of the first element.
        strides: strides in bytes.
        owner: keeps the memory alive.
    """

    place: ForeignPlace
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    is_read_only: bool
    owner: object

    @property
    def size(self) -> int:
        """Size of the elements in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements are in row-major order without gaps."""
        strides = contiguous_strides(self.shape, self.dtype.itemsize)
        if self.strides == strides or not self.size:
            return True
        return all(
            extent == 1 or have == want
            for extent, have, want in zip(self.shape, self.strides, strides, strict=True)
        )

    def array(self) -> Array:
        """Return a NumPy array that shares the memory of a tensor on the host."""
        if not self.size:
            return np.empty(self.shape, self.dtype)
        return np.asarray(_ArrayInterface(self)).view(self.dtype)


class _ArrayInterface:
    """Wrapper with `__array_interface__`; arrays made from it keep it, and so the owner, alive."""

    def __init__(self, tensor: ForeignTensor):
        self._owner = tensor.owner
        self.__array_interface__ = {
            "version": 3,
            "shape": tensor.shape,
            "strides": tensor.strides,
            # Types of other packages have no type string; their arrays are views of bytes.
            "typestr": f"|V{tensor.dtype.itemsize}",
            "data": (tensor.address, tensor.is_read_only),
        }


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides, in bytes, of a contiguous row-major tensor."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= max(extent, 1)
    return tuple(reversed(strides))


def place_of(value: Any) -> ForeignPlace | None:
    """Return the memory space of a foreign tensor; None if the value is not one."""
    # Third-party classes may raise any exception.
    with suppress(Exception):
        if hasattr(type(value), "__dlpack__"):
            kind, number = value.__dlpack_device__()
            return ForeignPlace(int(kind), int(number))
        if value.__cuda_array_interface__:
            return ForeignPlace(CUDA, None)
    return None


def foreign_tensor(
    value: Any, stream: int | None = None, wait: Callable[[int], None] | None = None
) -> ForeignTensor:
    """Describe a foreign tensor, without a copy.

    Args:
        stream: the consumer's stream, which the owner makes wait for its pending work.
        wait: makes the consumer's stream wait for a given stream.
    Raises:
        BufferError: the owner does not export the tensor, or its type has no equivalent.
    """
    if not hasattr(type(value), "__dlpack__"):
        return _from_interface(value, wait)
    given = {} if stream is None else {"stream": stream}
    try:
        try:
            capsule = value.__dlpack__(max_version=VERSION, **given)
        except TypeError:  # The owner is older than version 1.
            capsule = value.__dlpack__(**given)
    except Exception as error:
        raise BufferError(str(error)) from error
    return consume(capsule)


def consume(capsule: Any) -> ForeignTensor:
    """Consume a DLPack capsule and return its tensor.

    Raises:
        BufferError: the capsule is invalid or consumed, or the type has no equivalent.
    """
    name = next((name for name in CAPSULES if _is_valid(capsule, name)), None)
    if name is None:
        raise BufferError("its capsule holds no tensor, or was consumed before")
    address = _pointer(capsule, name)
    managed = CAPSULES[name].from_address(address)
    _set_name(capsule, _USED[name])
    owner = _Managed(address, managed.deleter)
    flags = 0
    if isinstance(managed, DLManagedTensorVersioned):
        if managed.major != VERSION[0]:
            raise BufferError(f"its DLPack version is {managed.major}.{managed.minor}")
        flags = managed.flags
    tensor = managed.tensor
    type_ = tensor.type
    dtype = _dtype_of(type_.code, type_.bits, type_.lanes, is_padded=bool(flags & PADDED))
    shape = tuple(tensor.shape[: tensor.rank])
    if tensor.strides:
        strides = tuple(n * dtype.itemsize for n in tensor.strides[: tensor.rank])
    else:
        strides = contiguous_strides(shape, dtype.itemsize)
    return ForeignTensor(
        ForeignPlace(tensor.device.kind, tensor.device.number),
        (tensor.data or 0) + tensor.offset,
        shape,
        strides,
        dtype,
        bool(flags & READ_ONLY),
        owner,
    )


@cache
def _dtype_of(code: int, bits: int, lanes: int, *, is_padded: bool) -> np.dtype[Any]:
    name = _OTHER_TYPES.get((code, bits))
    if name is None and code in _NUMPY_KINDS:
        name = f"{_NUMPY_KINDS[code]}{bits}"
    if name is None or lanes != 1:
        raise BufferError(f"it has elements of DLPack type {code} with {bits} bits, {lanes} lanes")
    if bits < 8 and not is_padded:
        raise BufferError(f"it has several elements of {name} in a byte")
    try:
        return named_dtype(name)
    except TypeError:
        raise BufferError(f"it has elements of {name}, which numpy does not know") from None


@cache
def _code_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the DLPack code and bits of a type that NumPy cannot export; zeros for others."""
    found = {name: type_ for type_, name in _OTHER_TYPES.items()}
    return found.get(dtype.name, (0, 0))


def export(
    place: ForeignPlace,
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: object,
    max_version: tuple[int, int] | None = None,
) -> Any:
    """Return the DLPack capsule of a contiguous tensor.

    NumPy makes the capsule, for an array that is never accessed; then its device and type are
    overwritten. The deleter is thus native code, which works in any thread and during interpreter
    shutdown.

    Args:
        owner: object that keeps the memory alive, held until the consumer is done.
        max_version: newest version that the consumer supports; None means before 1.0.
    Raises:
        BufferError: DLPack has no type for the elements.
    """
    code, bits = _code_of(dtype)
    plain = np.dtype(f"u{dtype.itemsize}") if bits else dtype
    strides = contiguous_strides(shape, dtype.itemsize)
    tensor = ForeignTensor(place, address, shape, strides, plain, False, owner)
    capsule = None
    if max_version is not None and tuple(max_version) >= VERSION:
        with suppress(TypeError):  # numpy is older than 2.1.
            capsule = tensor.array().__dlpack__(max_version=VERSION)
    if capsule is None:
        capsule = tensor.array().__dlpack__()
    name = next(name for name in CAPSULES if _is_valid(capsule, name))
    managed = CAPSULES[name].from_address(_pointer(capsule, name))
    managed.tensor.device = DLDevice(place.kind, place.number or 0)
    if bits:
        managed.tensor.type = DLDataType(code, bits, 1)
    if 0 < bits < 8:
        if not isinstance(managed, DLManagedTensorVersioned):
            raise BufferError(f"DLPack before 1.0 has no elements of {dtype} in a byte each")
        managed.flags |= PADDED
    return capsule


def _from_interface(value: Any, wait: Callable[[int], None] | None) -> ForeignTensor:
    """Read `__cuda_array_interface__`."""
    facts = value.__cuda_array_interface__
    if facts.get("mask") is not None:
        raise BufferError("it has masked elements")
    shape, dtype = tuple(facts["shape"]), np.dtype(facts["typestr"])
    address, is_read_only = facts["data"]
    strides = facts.get("strides") or contiguous_strides(shape, dtype.itemsize)
    stream = facts.get("stream")
    if stream is not None and wait is not None:
        wait(int(stream))
    return ForeignTensor(
        ForeignPlace(CUDA, None),
        address or 0,
        shape,
        tuple(strides),
        dtype,
        bool(is_read_only),
        value,
    )
