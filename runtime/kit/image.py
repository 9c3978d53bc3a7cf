"""The weights image of a kit: a header and the weights of each CPU level, see `c/weights.c`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tcopt.runtime.program import Program
from tcopt.support.files.digests import digest_of
from tcopt.support.machines.alignment import ALIGNMENT

FORMAT = 1
"""The version of the image and of the descriptor, as in `c/internal.h`."""

_HEADER = struct.Struct("<16sIIQ32s")
_MAGIC = b"tcopt-weights\n"


@dataclass(frozen=True)
class Section:
    """The weights of one CPU level in an image."""

    offset: int
    bytes: int
    digest: bytes


@dataclass(frozen=True)
class Image:
    """A weights image.

    Attributes:
        content: its bytes, in parts.
        digest: the digest of everything after the header.
        sections: the weights of each program.
    """

    content: list[bytes | memoryview]
    digest: bytes
    sections: list[Section]

    @property
    def bytes(self) -> int:
        return sum(memoryview(part).nbytes for part in self.content)


def weights_image(programs: Sequence[Program]) -> Image:
    """Return the image with the weights of some programs; equal weights are stored once."""
    known: dict[bytes, Section] = {}
    parts: list[bytes | memoryview] = []
    sections: list[Section] = []
    end = _HEADER.size
    for program in programs:
        data = program.weights.data
        digest = digest_of([data])
        if digest not in known:
            known[digest] = Section(end, data.nbytes, digest)
            padding = bytes(-data.nbytes % ALIGNMENT)
            parts += [data, padding]
            end += data.nbytes + len(padding)
        sections.append(known[digest])
    digest = digest_of(parts)
    header = _HEADER.pack(_MAGIC, FORMAT, 0, end, digest)
    return Image([header, *parts], digest, sections)
