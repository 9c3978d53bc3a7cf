"""Shapes of inputs on the command line: `--shape x:1x3x224x224`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tcopt.support.errors import InputError


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse `name:1x3x224x224` arguments.

    Raises:
        InputError: an argument does not have this form.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        # An ONNX name may hold colons itself, as in 'input:0'.
        match = re.fullmatch(r"(.+):((?:[1-9]\d*)(?:x[1-9]\d*)*)", text)
        if match is None:
            raise InputError(f"'{text}' is not a shape", hint="write 'name:1x3x224x224'")
        shapes[match[1]] = tuple(int(size) for size in match[2].split("x"))
    return shapes
