"""Textual form of encoded programs: words in hexadecimal, with a description after a semicolon."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tcopt.backends.vdla.encoding import Encoded, encode
from tcopt.backends.vdla.stream import Buffer, Stream
from tcopt.backends.vdla.text import describe
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.support.errors import ParsingError, printable
from tcopt.support.locations import describe_location, nearest_location

_LONGEST = 200
"""Maximum length of a source location in a description."""

_LINE = re.compile(r"\d+: ((?:[0-9a-f]+ ?)+)")
_BUFFER = re.compile(r'("(?:[^"\\]|\\.)*") i(8|32) \[([\d, ]*)\] at 0x([0-9a-f]+)')


def write_assembly(stream: Stream, target: VdlaTargetAttr) -> str:
    """Return the text of a stream.

        .program "copy"
        .buffer "x" i32 [4, 16] at 0x0
        .micro_ops at 0x0
        .instructions
          0: 0000000000000180 0000000400040001 ; compute: load acc 0, x[0] : 1x4

    Raises:
        UnsupportedError: the stream cannot be encoded.
    """
    encoded = encode(stream, target)
    lines = [f".program {json.dumps(encoded.name)}"]
    for buffer, address in encoded.buffers:
        shape = list(buffer.shape)
        lines.append(f".buffer {json.dumps(buffer.name)} i{buffer.bits} {shape} at {address:#x}")
    lines.append(f".micro_ops at {encoded.table:#x}")
    for number, (word, fields) in enumerate(
        zip(encoded.micro_ops.tolist(), stream.micro_ops, strict=True)
    ):
        lines.append(f"  {number}: {word:08x} ; {', '.join(map(str, fields))}")
    lines.append(".instructions")
    for number, (low, high) in enumerate(encoded.instructions.tolist()):
        instruction = stream.instructions[number]
        place = ""
        if instruction.op is not None:
            found = describe_location(nearest_location(instruction.op))
            place = f" at {printable(found, _LONGEST)}" if found else ""
        text = describe(instruction, stream.buffers)
        lines.append(f"  {number}: {low:016x} {high:016x} ; {instruction.unit}: {text}{place}")
    return "\n".join(lines) + "\n"


@dataclass
class _Part:
    """Parsed parts of one program."""

    name: str
    buffers: list[tuple[Buffer, int]] = field(default_factory=list[tuple[Buffer, int]])
    table: int = 0
    micro_ops: list[int] = field(default_factory=list[int])
    instructions: list[Sequence[int]] = field(default_factory=list[Sequence[int]])


def read_assembly(text: str, name: str = "<text>") -> list[Encoded]:
    """Parse the programs in a text; anything after a semicolon is ignored.

    Raises:
        ParsingError: a line is malformed.
    """
    parts: list[_Part] = []
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition(";")[0].strip()
        if not line:
            continue
        try:
            if line.startswith("."):
                section = _directive(line, parts)
            else:
                _words(line, section, parts)
        except (ValueError, LookupError) as error:
            raise ParsingError(
                f"this is not a line of a program: {error}", where=f"{name}:{number}"
            ) from None
    return [_encoded(part) for part in parts]


def _directive(line: str, parts: list[_Part]) -> str:
    word, _, rest = line.partition(" ")
    if word == ".program":
        parts.append(_Part(str(json.loads(rest))))
    elif word == ".buffer":
        match = _BUFFER.fullmatch(rest)
        if match is None:
            raise ValueError('expected .buffer "name" i8 [4, 16] at 0x0')
        shape = tuple(int(n) for n in match[3].split(",") if n.strip())
        buffer = Buffer(str(json.loads(match[1])), shape, int(match[2]))
        parts[-1].buffers.append((buffer, int(match[4], 16)))
    elif word == ".micro_ops":
        parts[-1].table = int(rest.removeprefix("at "), 16)
    elif word != ".instructions":
        raise ValueError(f"{word} is not a directive")
    return word


def _words(line: str, section: str, parts: list[_Part]) -> None:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("expected a number, a colon and words")
    words = [int(word, 16) for word in match[1].split()]
    if section == ".micro_ops" and len(words) == 1 and words[0] < 1 << 32:
        parts[-1].micro_ops.append(words[0])
    elif section == ".instructions" and len(words) == 2 and max(words) < 1 << 64:
        parts[-1].instructions.append(words)
    else:
        raise ValueError("a micro-op is one word of 32 bits, an instruction two of 64")


def _encoded(part: _Part) -> Encoded:
    return Encoded(
        part.name,
        tuple(part.buffers),
        part.table,
        np.array(part.micro_ops, np.uint32),
        np.array(part.instructions, np.uint64).reshape(-1, 2),
    )
