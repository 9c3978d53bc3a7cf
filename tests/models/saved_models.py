"""Saved models with a modified description and a valid digest, as an attacker would write."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tcopt.runtime.container import FORMAT, read_container
from tcopt.support.files.digests import digest_of

WRONG = [None, 3, -1, 2**62, 2**63, 1.5, "", "x", "\0", True, [], [[]], [None], ["x"], [3], {}]
"""JSON values of every kind; `...` means that the member is removed."""


def rewritten(
    source: Path,
    path: Path,
    text: bytes | None = None,
    drop: int | None = None,
    facts: dict[str, Any] | None = None,
) -> Path:
    """Copy a saved model with a modified description and a valid digest.

    Args:
        text: the new description.
        drop: index of a part to omit.
        facts: new values of members of the description.
    """
    content = read_container(source)
    parts = [part.tobytes() for n, part in enumerate(content.parts) if n != drop]
    described = content.facts.values() | (facts or {})
    if drop is not None:
        described["parts"] = [len(part) for part in parts]
    text = json.dumps(described).encode() if text is None else text
    body = bytearray(text)
    for part in parts:
        body += bytes(-(32 + len(body)) % 64) + part
    header = struct.pack("<12sIQQ", b"tcopt-model\n", FORMAT, len(text), 32 + len(body) + 32)
    path.write_bytes(header + body + digest_of([header, body]))
    return path


def with_facts(source: Path, path: Path, **facts: object) -> Path:
    """Copy an archive with a modified description."""
    return rewritten(source, path, facts=facts)


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every member of a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield (*place, key)
        if isinstance(inner, dict | list):
            yield from places_in(inner, (*place, key))


def changes_of(described: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield descriptions with each member replaced by values of every kind, or removed."""
    for place in places_in(described):
        for value in [*WRONG, ...]:
            changed = copy.deepcopy(described)
            holder: Any = changed
            for step in place[:-1]:
                holder = holder[step]
            if value is ...:
                del holder[place[-1]]
            else:
                holder[place[-1]] = value
            if changed != described:
                yield place, changed
