"""The file of a saved model: a description, parts, and one digest over all of it.

    offset   bytes
    0        12     "tcopt-model\\n"
    12       4      the number of this format, little-endian as all numbers
    16       8      bytes of the description
    24       8      bytes of the whole file
    32              the description: a JSON object; `parts` in it lists the sizes of the parts
    ...             each part at the next multiple of 64, after zero padding
    size-32  32     the digest of everything before it, see `support.files.digests`

Nothing is parsed before the digest is verified. Offsets of parts are computed from sizes instead of
stored, so parts cannot overlap or exceed the file. The digest detects damage, not malice, see
docs/saving.md.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.outputs import align
from tcopt.support.errors import InputError, ResourceError
from tcopt.support.files.access import cannot_read, open_file
from tcopt.support.files.digests import DIGEST_BYTES, digest_of, read_with_digest
from tcopt.support.files.json_facts import MOST_BYTES, FactError, Facts, parse_facts
from tcopt.support.machines.alignment import ALIGNMENT

FORMAT = 6
_MAGIC = b"tcopt-model\n"
_EARLIER_MAGIC = b"PK\x03\x04"
_HEADER = struct.Struct("<12sIQQ")
_AGAIN = "compile the model again"

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Container:
    """The content of a saved model.

    Attributes:
        facts: the description.
        parts: the bytes of each part, copied into memory unless they are mapped.
    """

    facts: Facts
    parts: list[Bytes]

    @property
    def kind(self) -> str:
        """The target kind of the model."""
        return self.facts.text("kind")


def write_container(
    stream: BinaryIO, kind: str, facts: dict[str, Any], parts: Sequence[bytes | memoryview]
) -> None:
    """Write a description and parts to an empty stream."""
    sizes = [memoryview(part).nbytes for part in parts]
    text = json.dumps({"kind": kind, **facts, "parts": sizes}, indent=1).encode()
    # `read_container` rejects larger descriptions.
    assert len(text) <= MOST_BYTES, "the description of a model is too large"
    end = _HEADER.size + len(text)
    buffers: list[bytes | memoryview] = [text]
    for part, size in zip(parts, sizes, strict=True):
        padding = -end % ALIGNMENT
        buffers += [bytes(padding), part]
        end += padding + size
    header = _HEADER.pack(_MAGIC, FORMAT, len(text), end + DIGEST_BYTES)
    buffers = [header, *buffers]
    for buffer in buffers:
        stream.write(buffer)
    stream.write(digest_of(buffers))


def read_container(path: Path, *, mapped: bool = False) -> Container:
    """Read a saved model and check its digest.

    Args:
        mapped: map the file into memory instead of reading it. It must not change from then on.
    Raises:
        InputError: no such file, not a saved model, or damaged.
        ResourceError: it is larger than memory.
    """
    try:
        with open_file(path) as stream:
            header = stream.read(_HEADER.size) or b""
            size = os.fstat(stream.fileno()).st_size
            length = _length_of_description(path, header, size)
            content, digest = _content(path, stream.fileno(), size, mapped=mapped)
    except OSError as error:
        raise cannot_read(path, error) from error
    except EOFError:
        raise _no_model(path, "it is truncated") from None
    if digest != content[-DIGEST_BYTES:].tobytes():
        raise InputError(
            f"{path} is damaged: its content does not match its digest",
            hint=f"{_AGAIN}, or copy the file again",
        )
    try:
        facts = parse_facts(content[_HEADER.size : _HEADER.size + length].tobytes())
        facts.text("kind")
        return Container(facts, _parts(facts, content, _HEADER.size + length))
    except FactError as error:
        raise _no_model(path, str(error)) from None


def _length_of_description(path: Path, header: bytes, size: int) -> int:
    """Return the length of the description from the header, after checking it and the file size."""
    if header.startswith(_EARLIER_MAGIC):
        raise _no_model(path, "it is a zip file, as earlier versions wrote them", hint=_AGAIN)
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        raise _no_model(path, "it has another magic number")
    _, version, length, whole = _HEADER.unpack(header)
    if version != FORMAT:
        raise InputError(f"{path} has format {version}, this version reads {FORMAT}", hint=_AGAIN)
    if whole != size:
        cause = "it is truncated" if size < whole else "something follows its end"
        raise _no_model(path, f"{cause} ({size} bytes of {whole})")
    if length > MOST_BYTES or _HEADER.size + length + DIGEST_BYTES > size:
        raise _no_model(path, f"its description cannot have {length} bytes")
    return length


def _content(path: Path, descriptor: int, size: int, *, mapped: bool) -> tuple[Bytes, bytes]:
    """Return all bytes of a file, and the digest of everything before the stored one."""
    if mapped:
        content = np.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ), np.uint8)
        return content, digest_of([content[:-DIGEST_BYTES].data])
    if size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise ResourceError(f"{path} has {size} bytes, which is more than the memory size")
    try:
        content = align(np.empty(size + ALIGNMENT, np.uint8), size)
    except MemoryError as error:
        raise ResourceError(f"there is no memory for the {size} bytes of {path}") from error
    digest = read_with_digest(descriptor, content[:-DIGEST_BYTES].data)
    end = content[-DIGEST_BYTES:]
    if os.preadv(descriptor, [end.data], size - DIGEST_BYTES) != DIGEST_BYTES:
        raise EOFError
    return content, digest


def _parts(facts: Facts, content: Bytes, end: int) -> list[Bytes]:
    parts: list[Bytes] = []
    for size in facts.numbers("parts"):
        start = end + -end % ALIGNMENT
        end = start + size
        parts.append(content[start:end])
    if end + DIGEST_BYTES != content.size:
        facts.refuse("parts", f"says that they end at {end}, not at {content.size - DIGEST_BYTES}")
    return parts


def _no_model(path: Path, cause: str, hint: str | None = None) -> InputError:
    return InputError(f"{path} is not a compiled model: {cause}", hint=hint)
