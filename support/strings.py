"""Strings as numbers: a tensor of strings is one of places in a table of different strings.

Equal strings have one place, so comparing strings, choosing among them and moving them is doing so
with 64-bit integers, and no code has to know what they stand for. Place 0 is the empty string,
which is therefore what zeros stand for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError, ResourceError
from tcopt.support.stop_checks import check_stop

Array = NDArray[Any]

TEXT = np.dtype(object)
"""The type of arrays of strings."""

TEXT_NAME = "string"
"""What that type is called in descriptions and messages."""

_STEP = 1 << 15
"""Strings that are looked up between two checks for a stop."""

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
        self._listed = np.empty(0, TEXT)

    def fork(self) -> StringTable:
        """A table that starts with the strings of this one, which it leaves as they are."""
        other = StringTable.__new__(StringTable)
        other._texts, other._places = [], {}
        other._base, other._start, other._characters = self, len(self), 0
        other._listed = np.empty(0, TEXT)
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
        if text not in self._places:
            self._add([text])
        return self._places[text]

    def _add(self, texts: Sequence[str]) -> None:
        """Add different strings that are new."""
        self._characters += sum(map(len, texts))
        if self._base is not None:
            check_characters(self._characters)
        for text in texts:
            if not text.isascii():
                check_unicode(text)
        plain = list(map(str, texts))
        self._places.update(zip(plain, range(len(self), len(self) + len(plain)), strict=True))
        self._texts += plain

    def encode(self, array: Array) -> NDArray[np.int64]:
        """The places of the strings of an array, which are added if they are new."""
        texts = array.reshape(-1)
        if texts.size <= _STEP:
            return self._places_of(texts.tolist()).reshape(array.shape)
        places = np.empty(texts.size, np.int64)
        for start in range(0, texts.size, _STEP):
            check_stop()
            part = slice(start, start + _STEP)
            places[part] = self._places_of(texts[part].tolist())
        return places.reshape(array.shape)

    def _places_of(self, texts: list[str]) -> NDArray[np.int64]:
        base = self if self._base is None else self._base
        # One loop in C. Most feeds consist of strings that the model has.
        places = np.fromiter(map(base._places.get, texts, repeat(-1)), np.int64, len(texts))
        if places.min(initial=0) < 0:
            missing = np.flatnonzero(places < 0)
            others = [texts[at] for at in missing.tolist()]
            self._add([text for text in dict.fromkeys(others) if text not in self._places])
            places[missing] = [*map(self._places.__getitem__, others)]
        return places

    def decode(self, places: NDArray[np.int64]) -> Array:
        """The strings at places; a place that there is not has the empty one."""
        flat = places.reshape(-1)
        found = np.empty(flat.size, TEXT)
        for start in range(0, flat.size, _STEP):
            check_stop()
            part = slice(start, start + _STEP)
            found[part] = self._texts_at(flat[part])
        return found.reshape(places.shape)

    def _texts_at(self, flat: NDArray[np.int64]) -> Array:
        found = np.full(flat.size, "", TEXT) if self._base is None else self._base._texts_at(flat)
        inside = (flat >= self._start) & (flat < len(self))
        if inside.all():
            found = self._array()[flat - self._start]
        elif inside.any():
            found[inside] = self._array()[flat[inside] - self._start]
        return found

    def _array(self) -> Array:
        """The strings that this table adds to those of its base, as an array."""
        if len(self._listed) != len(self._texts):
            self._listed = np.empty(len(self._texts), TEXT)
            self._listed[:] = self._texts
        return self._listed


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
