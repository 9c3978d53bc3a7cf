"""Conversion of TensorProto to numpy, with all checks needed for untrusted files."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import SparseTensorProto, TensorProto, numpy_helper

from tcopt.frontends.onnx.model.types import declared_dtype, elements_per_byte
from tcopt.support.data.strings import array_of_texts, is_text
from tcopt.support.errors import ImportModelError, UnsupportedError
from tcopt.support.files.access import open_file

_NAME_LIMIT = 4096
_MOST_DIGITS = 18


class TensorReader:
    """Reads tensors; external data must be in files inside `folder`.

    Args:
        folder: folder of the model file; None for a model in memory.
        follow_links: whether symbolic links in it may point to files elsewhere, as in local copies
            of model hubs, whose files are links to their contents.
    """

    def __init__(self, folder: Path | None, *, follow_links: bool = False):
        self.folder = folder
        self.follow_links = follow_links
        self.files: set[Path] = set()
        """Other files read so far, by their names in the model."""
        self.weights: Mapping[str, memoryview] = {}
        """Bytes that were removed from tensors, see `wire.cut_weights`."""

    def read(self, tensor: TensorProto, where: str) -> np.ndarray:
        """Return the tensor's value with its shape.

        Raises:
            ImportModelError: the data does not match the type and dims, or is outside the model's
                folder.
            UnsupportedError: the element type is not supported.
        """
        dtype = declared_dtype(tensor.data_type, where)
        dims = tuple(tensor.dims)
        if any(d < 0 for d in dims):
            raise ImportModelError(f"tensor has a negative dimension in {list(dims)}", where=where)
        count, packed = math.prod(dims), elements_per_byte(tensor.data_type)
        if tensor.HasField("segment"):
            raise UnsupportedError("tensors in segments are not supported", where=where)
        if is_text(dtype):
            return _texts(tensor, dims, where)
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._read_external(tensor, dtype, dims, where)
        raw = self.weights.get(tensor.doc_string)
        if raw is not None or tensor.HasField("raw_data"):
            raw = tensor.raw_data if raw is None else raw
            needed = -(-count * dtype.itemsize // packed)
            if len(raw) != needed:
                raise ImportModelError(
                    f"tensor {list(dims)} of {dtype} needs {needed} bytes, its data has {len(raw)}",
                    where=where,
                )
            if packed > 1:
                return _unpacked(np.frombuffer(raw, np.uint8), dtype, dims, packed)
            return (
                np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(dims)
            )
        return self._read_typed(tensor, dtype, dims, where)

    def read_sparse(self, tensor: SparseTensorProto, where: str) -> np.ndarray:
        """Return a sparse tensor as a dense array.

        Raises:
            ImportModelError: see `read`; or indices are out of range.
        """
        dims = tuple(tensor.dims)
        values, indices = self.read(tensor.values, where), self.read(tensor.indices, where)
        if any(d < 0 for d in dims) or is_text(values.dtype) or values.ndim != 1:
            raise ImportModelError(f"a sparse tensor of {list(dims)} is malformed", where=where)
        count = len(values)
        if indices.shape not in ((count,), (count, len(dims))) or indices.dtype != np.int64:
            raise ImportModelError(
                f"indices {list(indices.shape)} do not fit {count} values of a sparse tensor of "
                f"{list(dims)}",
                where=where,
            )
        limits = np.array([math.prod(dims)] if indices.ndim == 1 else dims, np.int64)
        if ((indices < 0) | (indices.reshape(count, -1) >= limits).reshape(indices.shape)).any():
            raise ImportModelError(
                f"an index of a sparse tensor is outside of {list(dims)}", where=where
            )
        found = np.zeros(dims, values.dtype)
        if indices.ndim == 1:
            found.reshape(-1)[indices] = values
        else:
            found[tuple(indices.T)] = values
        return found

    def _read_typed(
        self, tensor: TensorProto, dtype: np.dtype, dims: tuple[int, ...], where: str
    ) -> np.ndarray:
        fields = (tensor.float_data, tensor.int32_data, tensor.int64_data)
        present = sum(map(len, (*fields, tensor.double_data, tensor.uint64_data)))
        needed = -(-math.prod(dims) // elements_per_byte(tensor.data_type))
        if present != needed:
            raise ImportModelError(
                f"tensor {list(dims)} needs {needed} values, its data has {present}",
                where=where,
            )
        try:
            return numpy_helper.to_array(tensor).astype(dtype, copy=False).reshape(dims)
        except (ValueError, TypeError, OverflowError) as error:
            raise ImportModelError(f"tensor cannot be read: {error}", where=where) from error

    def _read_external(
        self, tensor: TensorProto, dtype: np.dtype, dims: tuple[int, ...], where: str
    ) -> np.ndarray:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        name, path = self._external_path(entries.get("location", ""), where)
        packed = elements_per_byte(tensor.data_type)
        needed = -(-math.prod(dims) * dtype.itemsize // packed)
        offset = _number(entries.get("offset", "0"), where)
        length = _number(entries.get("length", str(needed)), where)
        try:
            # Links are not followed, so that the file that was checked is the one that is opened.
            with open_file(path, follow=False) as stream:
                size = os.fstat(stream.fileno()).st_size
                if length != needed or offset + length > size:
                    raise ImportModelError(
                        f"external data of tensor {list(dims)} needs {needed} bytes: length "
                        f"{length} at offset {offset} of {path.name} ({size} bytes) does not fit",
                        where=where,
                    )
                self.files.add(name)
                if not needed:
                    return np.zeros(dims, dtype)
                # Mapped, not read: unused weights cost nothing.
                raw = np.memmap(stream, np.uint8, mode="r", offset=offset, shape=(needed,))  # pyright: ignore
        except (OSError, ValueError, OverflowError) as error:
            raise ImportModelError(
                f"external data {path.name!r} cannot be read: {error}", where=where
            ) from error
        if packed > 1:
            return _unpacked(raw, dtype, dims, packed)
        return raw.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(dims)

    def _external_path(self, location: str, where: str) -> tuple[Path, Path]:
        """Return the path of an external file as named by the model, and with links resolved."""
        if self.folder is None:
            raise ImportModelError(
                "the model keeps weights in another file, so it cannot be imported from memory",
                where=where,
                hint="give the path of the .onnx file",
            )
        if not location or "\0" in location or len(location) > _NAME_LIMIT:
            raise ImportModelError("external data has no valid file name", where=where)
        relative = Path(location)
        if relative.is_absolute() or ".." in relative.parts or "\\" in location:
            raise ImportModelError(
                f"external data {location!r} is not a path inside the model's folder", where=where
            )
        try:
            folder = self.folder.resolve()
            path = (folder / relative).resolve()
            outside, absent = not path.is_relative_to(folder), not path.is_file()
            outside = outside and not self.follow_links
        except (OSError, RuntimeError) as error:
            # The name is too long, or a link points to itself.
            raise ImportModelError(
                f"external data {location!r} cannot be found: {error}", where=where
            ) from error
        if outside:
            raise ImportModelError(
                f"external data {location!r} links to a file outside the model's folder",
                where=where,
                hint="if you trust the model's links, allow it with follow_links=True, in tools "
                "with --follow-links",
            )
        if absent:
            raise ImportModelError(
                f"external data file {location!r} does not exist",
                where=where,
                hint="keep it next to the .onnx file",
            )
        return self.folder.absolute() / relative, path


def _texts(tensor: TensorProto, dims: tuple[int, ...], where: str) -> np.ndarray:
    """Read a tensor of strings, which must be stored in the tensor itself."""
    if tensor.data_location == TensorProto.EXTERNAL or tensor.HasField("raw_data"):
        raise ImportModelError("strings should be in the tensor's string_data", where=where)
    needed, present = math.prod(dims), len(tensor.string_data)
    if present != needed:
        raise ImportModelError(
            f"tensor {list(dims)} needs {needed} values, its data has {present}", where=where
        )
    return array_of_texts((text_of(item, where) for item in tensor.string_data), dims)


def text_of(data: bytes, where: str) -> str:
    """Decode a string of a model.

    Raises:
        ImportModelError: it is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ImportModelError(f"a string is not UTF-8: {error}", where=where) from error


def _number(text: str, where: str) -> int:
    """Parse an offset or a length."""
    if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise ImportModelError(
            f"external data has the offset or length {text[:40]!r}, which is not a number of bytes",
            where=where,
        )
    return int(text)


def _unpacked(raw: np.ndarray, dtype: np.dtype, dims: tuple[int, ...], packed: int) -> np.ndarray:
    """Unpack elements of which a byte holds `packed`, starting with the lowest bits."""
    bits = 8 // packed
    parts = raw[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1
    return parts.reshape(-1)[: math.prod(dims)].view(dtype).reshape(dims)
