"""Strings as numbers: a tensor of strings is one of places in a table of different strings.

Equal strings have one place, so comparing strings, choosing among them and moving them is doing so
with 64-bit integers, and no code has to know what they stand for. Place 0 is the empty string,
which is therefore what zeros stand for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError, ResourceError
from tcopt.support.stop_checks import in_steps

Array = NDArray[Any]

TEXT = np.dtype(object)
"""The type of arrays of strings."""

TEXT_NAME = "string"
"""What that type is called in descriptions and messages."""

MOST_CHARACTERS = 1 << 28
"""Of the strings that one run of a program may make or be given, together."""


def is_text(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a type hold strings."""
    return dtype.hasobject


def dtype_text(dtype: np.dtype[Any]) -> str:
    """What the type of an array is called, in descriptions and messages."""
    return TEXT_NAME if is_text(dtype) else dtype.name


class StringTable:
    """Different strings by place; a run of a program adds to a table of its own.

    Args:
        texts: the first ones, of which the empty one is the first.
    """

    def __init__(self, texts: Sequence[str] = ("",)):
        if not texts or texts[0]:
            raise InputError("the first string of a table should be the empty one")
        self._texts = list(texts)
        self._places = {text: place for place, text in enumerate(self._texts)}
        if len(self._places) < len(self._texts):
            raise InputError("a table of strings has one of them twice")
        self._base: StringTable | None = None
        self._start = 0
        self._characters = 0

    def fork(self) -> StringTable:
        """A table that starts with the strings of this one, which it leaves as they are."""
        other = StringTable.__new__(StringTable)
        other._texts, other._places = [], {}
        other._base, other._start, other._characters = self, len(self), 0
        return other

    def __len__(self) -> int:
        return self._start + len(self._texts)

    @property
    def texts(self) -> list[str]:
        """All strings, by place."""
        return [*(() if self._base is None else self._base.texts), *self._texts]

    def place(self, text: str) -> int:
        """The place of a string, which is added if it is new.

        Raises:
            InputError: it is none that UTF-8 has.
            ResourceError: there are too many.
        """
        if self._base is not None and (known := self._base._places.get(text)) is not None:
            return known
        known = self._places.get(text)
        return self._add(text) if known is None else known

    def _add(self, text: str) -> int:
        if not text.isascii():
            check_unicode(text)
        self._characters += len(text)
        if self._base is not None:
            check_characters(self._characters)
        place = self._places[str(text)] = len(self)
        self._texts.append(str(text))
        return place

    def encode(self, array: Array) -> NDArray[np.int64]:
        """The places of the strings of an array, which are added if they are new."""
        places = (self.place(text) for text in in_steps(array.reshape(-1).tolist(), len))
        return np.fromiter(places, np.int64, array.size).reshape(array.shape)

    def decode(self, places: NDArray[np.int64]) -> Array:
        """The strings at places; a place that there is not has the empty one."""
        count = len(self)
        found = np.empty(places.size, TEXT)
        found[:] = [
            self._at(place) if 0 <= place < count else ""
            for place in in_steps(places.reshape(-1).tolist())
        ]
        return found.reshape(places.shape)

    def _at(self, place: int) -> str:
        if self._base is not None and place < self._start:
            return self._base._at(place)
        return self._texts[place - self._start]


def check_unicode(text: str) -> None:
    """Check that a string can be written as UTF-8.

    Raises:
        InputError: it has a half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the string {text[:40]!a} is not Unicode text", hint="it has half a character"
        ) from None


def check_characters(count: int) -> None:
    """Check that a run may have strings of together so many characters.

    Raises:
        ResourceError: it may not.
    """
    if count > MOST_CHARACTERS:
        raise ResourceError(
            f"a run has strings of more than {MOST_CHARACTERS} characters", hint="give it less"
        )


def array_of_texts(texts: Iterable[str], shape: Sequence[int]) -> Array:
    """An array of strings."""
    items = list(texts)
    found = np.empty(len(items), TEXT)
    found[:] = items
    return found.reshape(tuple(shape))


_current: ContextVar[StringTable | None] = ContextVar("strings", default=None)


def current_strings() -> StringTable:
    """The table in which the strings of the program that is computed have their places.

    Raises:
        InputError: none is computed.
    """
    table = _current.get()
    if table is None:
        raise InputError("the strings of the program are not at hand")
    return table


@contextmanager
def strings_in(table: StringTable) -> Generator[StringTable]:
    """Compute with the strings of a table while the context is open."""
    token = _current.set(table)
    try:
        yield table
    finally:
        _current.reset(token)
