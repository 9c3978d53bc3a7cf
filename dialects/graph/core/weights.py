"""Side store of the weights that `graph.constant @name` refers to.

A module names its store in the attribute `graph.weights`: the path of a safetensors file, or
`mem:<n>` for a store in the memory of this process, which exists as long as a module names it.
"""

from __future__ import annotations

import json
import math
import weakref
from collections.abc import Iterator, MutableMapping
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tcopt.dialects.graph.core.types import Array, like
from tcopt.support.errors import InputError
from tcopt.support.files.access import open_output

ATTRIBUTE = "graph.weights"

SHARED_BYTES = 4096
"""Minimum size in bytes from which equal arrays are stored once."""

_SAMPLES = 4
"""Elements sampled along each axis, which distinguish most arrays."""

_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype(np.uint16),
    "I16": np.dtype(np.int16),
    "U32": np.dtype(np.uint32),
    "I32": np.dtype(np.int32),
    "U64": np.dtype(np.uint64),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    # Types that safetensors has no name for, or packs; here each element is a byte.
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "F4_E2M1_BYTES": np.dtype(ml_dtypes.float4_e2m1fn),
    "I4_BYTES": np.dtype(ml_dtypes.int4),
    "U4_BYTES": np.dtype(ml_dtypes.uint4),
    "I2_BYTES": np.dtype(ml_dtypes.int2),
    "U2_BYTES": np.dtype(ml_dtypes.uint2),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class WeightStore(MutableMapping[str, Array]):
    """Weights by name: those of a memory-mapped file, and new ones that override them."""

    def __init__(self, path: str | Path | None = None):
        """Open a safetensors file, or create an empty store.

        Raises:
            InputError: the file cannot be read or is malformed.
        """
        self.path = None if path is None else Path(path)
        self._values: dict[str, Array] = {}
        if self.path is not None:
            self._values.update(_read(self.path))
        self._counter = count()
        self._alike: dict[tuple[object, ...], list[str]] = {}
        self.changed = False

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def __setitem__(self, name: str, value: Array) -> None:
        like(value)
        self._values[name] = value
        self.changed = True

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self.changed = True

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: Array, hint: str = "folded") -> str:
        """Store an array under a new name made from `hint`, and return the name.

        If an equal large array has already been added, return its name instead.
        """
        names: list[str] = []
        if value.nbytes >= SHARED_BYTES:
            names = self._alike.setdefault(_sample(value), [])
            for other in names:
                if (stored := self._values.get(other)) is not None and _is_same(stored, value):
                    return other
        name = hint
        while name in self._values:
            name = f"{hint}.{next(self._counter)}"
        self[name] = value
        names.append(name)
        return name

    def save(self, path: str | Path) -> None:
        """Write all weights to a safetensors file, atomically.

        Raises:
            InputError: the file cannot be written.
        """
        with open_output(path) as stream:
            self.write(stream)

    def write(self, stream: BinaryIO) -> None:
        """Write all weights in the safetensors format."""
        header: dict[str, Any] = {}
        offset = 0
        for name, value in self._values.items():
            end = offset + value.nbytes
            header[name] = {
                "dtype": _NAMES[value.dtype],
                "shape": list(value.shape),
                "data_offsets": [offset, end],
            }
            offset = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        for value in self._values.values():
            stream.write(np.ascontiguousarray(value).tobytes())


def _sample(value: Array) -> tuple[object, ...]:
    """Return a key that is equal for equal arrays and rarely for different ones."""
    few = value[tuple(slice(None, None, max(1, n // _SAMPLES)) for n in value.shape)]
    return value.dtype, value.shape, few.tobytes()


def _is_same(one: Array, other: Array) -> bool:
    """Whether two arrays have the same bits."""
    if one is other:
        return True
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    bits = f"u{one.itemsize}"
    return np.array_equal(one.view(bits), other.view(bits))


def _read(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file as views of a memory map."""
    try:
        size = path.stat().st_size
        data = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
        length = int.from_bytes(data[:8].tobytes(), "little")
        if size < 8 or 8 + length > size:
            raise ValueError("the header is cut off")
        header = json.loads(data[8 : 8 + length].tobytes())
        body = data[8 + length :]
        return {
            name: _view(body, entry) for name, entry in header.items() if name != "__metadata__"
        }
    except OSError as error:
        raise InputError(f"cannot read weights: {error.strerror}", where=str(path)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"malformed safetensors file: {error}", where=str(path)) from error


def _view(body: Array, entry: Any) -> Array:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if not 0 <= start <= end <= body.size or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError("an entry's extent does not match its data")
    return body[start:end].view(dtype).reshape(shape)


_stores: dict[str, WeightStore] = {}
_next_store = count()


def attach_weights(module: ModuleOp, store: WeightStore) -> None:
    """Make a module and its clones refer to a store of this process.

    The store can be looked up by name as long as some module holds the attribute.
    """
    name = f"mem:{next(_next_store)}"
    attribute = StringAttr(name)
    _stores[name] = store
    weakref.finalize(attribute, _stores.pop, name, None)
    module.attributes[ATTRIBUTE] = attribute


def release_weights(module: ModuleOp) -> None:
    """Empty the store that a module names, without waiting for the module to be
    garbage-collected."""
    store = weights_of(module)
    if store is not None:
        store.clear()


def weights_of(module: ModuleOp) -> WeightStore | None:
    """Return the store that a module names; None if it names none, or one of another process.

    A file is opened once for a module and its clones; changes to the store are not written to it.

    Raises:
        InputError: the named file cannot be read.
    """
    attribute = module.attributes.get(ATTRIBUTE)
    if not isinstance(attribute, StringAttr):
        return None
    if attribute.data.startswith("mem:"):
        return _stores.get(attribute.data)
    key = f"{id(attribute)}:{attribute.data}"
    if key not in _stores:
        _stores[key] = WeightStore(attribute.data)
        weakref.finalize(attribute, _stores.pop, key, None)
    return _stores[key]
