"""Conversion of the values fed to a model into arrays.

The type of an array is checked but never converted, as a conversion would hide an error. Python
numbers and lists of them have no element type; they are converted to the type of the input if it
can represent them. Tensors of other libraries are read without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.foreign import HOST, ForeignPlace, foreign_tensor, place_of
from tcopt.support.data.strings import TEXT, is_text
from tcopt.support.errors import InputError

if TYPE_CHECKING:
    from tcopt.runtime.device.arrays import DeviceArray
    from tcopt.runtime.device.interface import Device

Array = NDArray[Any]
Tensor: TypeAlias = "Array | DeviceArray"
"""Tensor in the memory of the host or of a device."""


OpenDevice: TypeAlias = "Callable[[], Device | None]"
"""Function that returns the device a model runs on, or None for a CPU; called only if needed."""

_NUMBERS = (bool, int, float, complex, list, tuple)
_SHOWN = 40
_TEXTS = {str}


def tensor_of(
    what: object, dtype: np.dtype[Any], value: object, open_device: OpenDevice | None = None
) -> Tensor:
    """Return the value given for an input as a tensor.

    Args:
        what: the input, for messages; converted to text only if needed.
        dtype: type of the input, to which numbers and lists of numbers are converted.
        open_device: returns the device that the model runs on; None for a CPU.
    Raises:
        InputError: the value cannot be converted to an array, or is on another device.
    """
    if isinstance(value, np.ndarray):
        return _plain(what, value)
    place = place_of(value)
    if place is not None and not place.is_host:
        return device_tensor(f"input {what}", value, place, open_device)
    return _array_of(what, dtype, value)


def device_tensor(
    what: str,
    value: Any,
    place: ForeignPlace,
    open_device: OpenDevice | None,
    *,
    writable: bool = False,
) -> DeviceArray:
    """Return a tensor in the memory of a device.

    Args:
        what: description for messages, such as `input "x"`.
    Raises:
        InputError: the tensor is on another device than the model, or the device cannot access it.
    """
    device = None if open_device is None else open_device()
    own = HOST if device is None else device.place
    if device is None or not place.is_on(own):
        hint = "copy it to the host first"
        if own.kind == place.kind:
            hint = f"copy it to {own}, or run the model where it is: model.device = {place.number}"
        raise InputError(f"{what} is in the memory of {place}, the model runs on {own}", hint=hint)
    try:
        return device.tensor(value, writable=writable)
    except BufferError as error:
        message = f"{what} cannot be this {type(value).__name__}: {error}"
        raise InputError(message, hint="copy it to the host first") from error


def host_array(value: Any) -> Array:
    """Return an array that shares the memory of a foreign tensor on the host.

    Raises:
        BufferError: the owner does not export the tensor.
    """
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):
        # NumPy cannot import types of other packages, such as bfloat16.
        return foreign_tensor(value).array()


def _array_of(what: object, dtype: np.dtype[Any], value: object) -> Array:
    """Convert a value that is neither a NumPy array nor in device memory to an array."""
    if is_text(dtype) and isinstance(value, str | bytes | list | tuple):
        return _of_texts(what, value)
    if value is None or isinstance(value, str | bytes):
        hint = "give an array, or a list of numbers"
        raise InputError(f"input {what} cannot be {_shown(value)}", hint=hint)
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, _NUMBERS):
        return _of_numbers(what, dtype, value)
    if place_of(value) is not None:
        # An owner that does not support DLPack export may still convert to an array below.
        with suppress(Exception):
            return host_array(value)
    try:
        array = np.asarray(value)
    # Conversions by third-party classes may raise any exception.
    except Exception as error:
        raise InputError(
            f"input {what} cannot be {type(value).__name__}: {error}", hint="give an array"
        ) from error
    if array.dtype.hasobject and not is_text(dtype):
        raise InputError(f"input {what} cannot be {type(value).__name__}", hint="give an array")
    return array


def _of_texts(what: object, value: Any) -> Array:
    """Convert a string, or nested lists of strings."""
    try:
        array = np.asarray(value, TEXT)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"the list given for input {what} is not an array: {error}") from error
    return array


def are_texts(array: Array) -> bool:
    """Whether all elements of an array of objects are Python strings."""
    return {*map(type, array.reshape(-1).tolist())} <= _TEXTS


def texts_of(what: object, array: Array) -> Array:
    """Convert an array of any of NumPy's string types to an array of Python strings.

    Raises:
        InputError: an element is not a string, or is not UTF-8.
    """
    if array.dtype.kind in "UT":
        return array.astype(TEXT)
    if array.dtype.kind not in "OS":
        return array
    if array.dtype.kind == "O" and are_texts(array):
        return array
    found = array.astype(TEXT, order="C")
    for place, item in enumerate(found.reshape(-1).tolist()):
        if isinstance(item, bytes):
            try:
                found.reshape(-1)[place] = item.decode()
            except UnicodeDecodeError as error:
                raise InputError(f"input {what} has bytes that are not UTF-8: {error}") from error
        elif not isinstance(item, str):
            raise InputError(
                f"input {what} has {_shown(item)} among its strings",
                hint="give only strings; a missing value may be an empty string",
            )
    return found


def _plain(what: object, value: Array) -> Array:
    """Return a plain `numpy.ndarray` in the machine's byte order."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(
            f"input {what} has masked elements", hint="fill them, as in value.filled(0)"
        )
    array = np.asarray(value)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _of_numbers(what: object, dtype: np.dtype[Any], value: Any) -> Array:
    """Convert numbers to the type of the input, if it can represent them."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        cause = "its parts have different lengths" if _is_ragged(error) else str(error)
        raise InputError(f"the list given for input {what} is not an array: {cause}") from error
    if array.dtype == dtype:
        return array
    fits = _takes(dtype, array)
    if fits:
        with np.errstate(all="ignore"):
            converted = array.astype(dtype)
        if _is_same(array, converted):
            return converted
    raise InputError(
        f"input {what} cannot hold {_shown(value)}",
        hint=f"give an array, as in numpy.asarray(value, numpy.{dtype.name})",
    )


def _takes(dtype: np.dtype[Any], array: Array) -> bool:
    """Whether converting an array of Python numbers to a type is legal."""
    if not array.size:
        return array.dtype.kind in "biuf"
    wanted = _kind(dtype)
    return {"b": wanted == "b", "i": wanted in "if", "u": wanted in "if", "f": wanted == "f"}.get(
        array.dtype.kind, False
    )


def _kind(dtype: np.dtype[Any]) -> str:
    """Return the kind of a type: `b`, `i` or `f`, also for types that NumPy reports as `V`."""
    name = dtype.name
    if "float" in name:
        return "f"
    return "i" if "int" in name else dtype.kind


def _is_same(array: Array, converted: Array) -> bool:
    """Whether a conversion kept all integers equal, or let no float overflow."""
    if _kind(converted.dtype) == "i":
        return bool(np.array_equal(converted.astype(array.dtype), array))
    wide = converted.astype(np.float64)
    return bool(np.array_equal(np.isfinite(array), np.isfinite(wide)))


def _is_ragged(error: Exception) -> bool:
    return "inhomogeneous" in str(error)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        return type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
