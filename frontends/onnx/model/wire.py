"""Extraction of large weights from an encoded model, so that decoding does not copy them.

A message is a sequence of fields with tag and value (protobuf's wire format). Relevant fields are
`ModelProto.graph`, its `GraphProto.initializer`, and their `TensorProto.raw_data`. Extracted bytes
are replaced by a `doc_string` of the tensor that identifies them. Nothing is validated here:
anything unexpected is left to the decoder.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW, _TENSOR_DOC, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 9, 12, 13, 14
_WHERE_DATA_IS = (_TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION)

_LARGE = 4096
"""Minimum size in bytes of a weight to extract."""

_MOST_FIELDS = 200_000
"""Maximum number of fields to scan; the decoder is faster for files with many small fields."""


def cut_weights(data: memoryview) -> tuple[bytes, dict[str, memoryview]] | None:
    """Remove the large weights from an encoded model; return None if there are none.

    Args:
        data: the encoded model, which must not change.
    Returns:
        The rest of the model, and the extracted bytes by the `doc_string` of their tensor, which a
        file cannot predict.
    """
    secret = secrets.token_hex(16)
    weights: dict[str, memoryview] = {}
    parts: list[bytes | memoryview] = []
    fields = _Fields()
    try:
        graphs = [each for each in fields.of(data) if each.number == _MODEL_GRAPH]
        if len(graphs) != 1 or graphs[0].wire != _BYTES:
            return None
        graph = graphs[0]
        body = data[graph.start : graph.end]
        copied = 0
        for each in fields.of(body):
            if each.number != _GRAPH_INITIALIZER or each.wire != _BYTES:
                continue
            tensor = body[each.start : each.end]
            raw = _raw_data(tensor, fields)
            if raw is None:
                continue
            name = f"{secret} {len(weights)}"
            weights[name] = tensor[raw.start : raw.end]
            rest = (tensor[: raw.tag], tensor[raw.end :], _field(_TENSOR_DOC, name.encode()))
            head = _head(_GRAPH_INITIALIZER, sum(map(len, rest)))
            parts += (body[copied : each.tag], head, *rest)
            copied = each.end
    except (ValueError, IndexError):
        return None
    if not weights:
        return None
    parts.append(body[copied:])
    head = _head(_MODEL_GRAPH, sum(map(len, parts)))
    return b"".join((data[: graph.tag], head, *parts, data[graph.end :])), weights


@dataclass(frozen=True, slots=True)
class _Field:
    """A field: the position of its tag, and the range of its value."""

    number: int
    wire: int
    tag: int
    start: int
    end: int


class _Fields:
    """Reads the fields of messages, up to a maximum number."""

    def __init__(self) -> None:
        self._left = _MOST_FIELDS

    def of(self, data: memoryview) -> Iterator[_Field]:
        """Yield the fields of a message; ValueError or IndexError if malformed or too long."""
        position, size = 0, len(data)
        while position < size:
            self._left -= 1
            if self._left < 0:
                raise ValueError("too many fields")
            tag = position
            key, position = _varint(data, position)
            wire = key & 7
            start = position
            if wire == _VARINT:
                _, position = _varint(data, position)
            elif wire == _BYTES:
                length, start = _varint(data, position)
                position = start + length
            elif wire in _FIXED_SIZES:
                position += _FIXED_SIZES[wire]
            else:
                raise ValueError(f"wire type {wire}")
            if position > size:
                raise ValueError("a field is cut off")
            yield _Field(key >> 3, wire, tag, start, position)


def _raw_data(tensor: memoryview, fields: _Fields) -> _Field | None:
    """Return a tensor's raw data if it is large, unique, and the only data of the tensor."""
    if len(tensor) < _LARGE:
        return None
    found = [each for each in fields.of(tensor) if each.number in _WHERE_DATA_IS]
    if len(found) != 1 or found[0].number != _TENSOR_RAW or found[0].wire != _BYTES:
        return None
    return found[0] if found[0].end - found[0].start >= _LARGE else None


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Decode a varint (seven bits per byte, lowest first); return it and its end position."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number has no end")


def _head(number: int, length: int) -> bytes:
    """Return the tag and length of a field with `length` bytes."""
    return _encoded(number << 3 | _BYTES) + _encoded(length)


def _field(number: int, value: bytes) -> bytes:
    return _head(number, len(value)) + value


def _encoded(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
