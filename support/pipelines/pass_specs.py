"""Passes of a pipeline as data: names and options, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

Value = str | int | bool | float
Passes = tuple["PassSpec", ...]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ESCAPES = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f", "\v": "\\v"}
)
_NO_WORDS = ("true", "false")
"""Words that are booleans unless quoted."""


class PassSpec(NamedTuple):
    """A pass with its options, as named in a pipeline.

    Attributes:
        name: name of the pass.
        options: option names as in the text, with their values, in order.
    """

    name: str
    options: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    @classmethod
    def of(cls, name: str, **options: Value) -> PassSpec:
        """Create a specification; options are given by their field names."""
        given = ((key.replace("_", "-"), (value,)) for key, value in options.items())
        return cls(name, tuple(given))

    def having(self, **options: Value) -> PassSpec:
        """Return the same pass with some options set, replacing old values."""
        changed = PassSpec.of(self.name, **options).options
        names = {name for name, _ in changed}
        kept = (option for option in self.options if option[0] not in names)
        return PassSpec(self.name, (*kept, *changed))

    def __str__(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name}{{{' '.join(_option_text(*option) for option in self.options)}}}"


def _option_text(name: str, values: tuple[Value, ...]) -> str:
    return f"{name}={','.join(map(_value_text, values))}" if values else name


def _value_text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    if _WORD.fullmatch(value) and value not in _NO_WORDS:
        return value
    return f'"{value.translate(_ESCAPES)}"'


def passes_text(passes: Iterable[PassSpec]) -> str:
    """Return the text of a pipeline of passes."""
    return ",".join(map(str, passes))


def specs(*passes: str | PassSpec) -> Passes:
    """Return specifications; passes without options may be given by name."""
    return tuple(PassSpec(each) if isinstance(each, str) else each for each in passes)
