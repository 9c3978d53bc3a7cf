"""Parsing of shapes on the command line: `--shape x:1x3x224x224`, or `--dim batch=2` by name.

A dimension may have a range, `--dim length=1..512`; see `tcopt.support.arithmetic.size_ranges`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tcopt.support.arithmetic.size_ranges import GivenSize, given_size
from tcopt.support.errors import InputError


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse `name:1x3x224x224` arguments.

    Raises:
        InputError: an argument does not have this form.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        # ONNX names may contain colons, as in 'input:0'.
        match = re.fullmatch(r"(.+):((?:[1-9]\d*)(?:x[1-9]\d*)*)", text)
        if match is None:
            raise InputError(f"'{text}' is not a shape", hint="write 'name:1x3x224x224'")
        shapes[match[1]] = tuple(int(size) for size in match[2].split("x"))
    return shapes


def parse_dims(texts: Sequence[str]) -> dict[str, GivenSize]:
    """Parse `batch=2` and `length=1..512` arguments.

    Raises:
        InputError: an argument does not have this form, or a name has two extents.
    """
    dims: dict[str, GivenSize] = {}
    for text in texts:
        name, _, extent = text.rpartition("=")
        if not name or not extent:
            raise InputError(f"'{text}' is not a dimension", hint="write 'batch=2'")
        size = given_size(name, extent)
        if dims.setdefault(name, size) != size:
            raise InputError(f"dimension '{name}' is given as {dims[name]} and as {size}")
    return dims


def parse_donations(texts: Sequence[str]) -> dict[str, str]:
    """Return outputs by the names of donated inputs.

    Raises:
        InputError: a text is not `input=output`.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, result = text.partition("=")
        if not equals:
            raise InputError(f"'{text}' is not a donation", hint="write 'past=present'")
        found[name] = result
    return found


def dims_text(extents: Mapping[str, int]) -> str:
    """Format named dimensions as `batch = 2, seq = 5`."""
    return ", ".join(f"{name} = {extent}" for name, extent in extents.items())
