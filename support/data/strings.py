"""Strings as numbers: a string tensor holds indices into a table of distinct strings.

Equal strings have the same index, so comparing, selecting and moving strings are operations on
64-bit integers, and compiled code does not need the table. Index 0 is the empty string, so
zero-initialised tensors hold empty strings.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError, ResourceError
from tcopt.support.processes.stop_checks import check_stop

Array = NDArray[Any]

TEXT = np.dtype(object)
"""Data type of string arrays."""

TEXT_NAME = "string"
"""Name of the string type in descriptions and messages."""

_STEP = 1 << 15
"""Number of strings encoded between two checks for a stop."""

_FEW = 64
"""Number of strings up to which decoding one by one is faster than array operations."""

_NO_TEXTS = np.empty(0, TEXT)

MOST_CHARACTERS = 1 << 28
"""Maximum total number of characters of strings created by or passed to a run."""


def is_text(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a type hold strings."""
    return dtype.hasobject


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return the name of a data type in descriptions and messages."""
    return TEXT_NAME if is_text(dtype) else dtype.name


class StringTable:
    """Distinct strings by index; each run of a program adds to a table of its own.

    Args:
        texts: initial strings, starting with the empty string.
    """

    def __init__(self, texts: Sequence[str] = ("",)):
        if not texts or texts[0]:
            raise InputError("the first string of a table must be the empty string")
        self._texts = list(texts)
        self._places = {text: place for place, text in enumerate(self._texts)}
        if len(self._places) < len(self._texts):
            raise InputError("a string table has duplicates")
        self._base: StringTable | None = None
        self._start = 0
        self._characters = 0
        self._listed = _NO_TEXTS

    def fork(self) -> StringTable:
        """Create a table that starts with the strings of this one, without changing it."""
        other = StringTable.__new__(StringTable)
        other._texts, other._places = [], {}
        other._base, other._start, other._characters = self, len(self), 0
        other._listed = _NO_TEXTS
        return other

    def __len__(self) -> int:
        return self._start + len(self._texts)

    @property
    def texts(self) -> list[str]:
        """All strings by index."""
        return [*(() if self._base is None else self._base.texts), *self._texts]

    def place(self, text: str) -> int:
        """Return the index of a string, which is added if it is new.

        Raises:
            InputError: the string cannot be encoded as UTF-8.
            ResourceError: the strings of the run have too many characters.
        """
        if self._base is not None and (known := self._base._places.get(text)) is not None:
            return known
        if text not in self._places:
            self._add([text])
        return self._places[text]

    def _add(self, texts: Sequence[str]) -> None:
        """Add new, distinct strings."""
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
        """Return the indices of the strings of an array, adding new strings."""
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
        # Loops in C; most inputs only have strings that the model knows.
        places = list(map(base._places.get, texts))
        if None in places:
            missing = dict.fromkeys(t for t, p in zip(texts, places, strict=True) if p is None)
            own = self._places
            self._add([text for text in missing if text not in own])
            places = [own[t] if p is None else p for t, p in zip(texts, places, strict=True)]
        return np.fromiter(places, np.int64, len(places))

    def decode(self, places: NDArray[np.int64]) -> Array:
        """Return the strings at indices; invalid indices give the empty string."""
        flat = places.reshape(-1)
        if flat.size <= _FEW:
            return array_of_texts(map(self.text, flat.tolist()), places.shape)
        found = np.empty(flat.size, TEXT)
        for start in range(0, flat.size, _STEP):
            check_stop()
            part = slice(start, start + _STEP)
            found[part] = self._texts_at(flat[part])
        return found.reshape(places.shape)

    def text(self, place: int) -> str:
        """Return the string at an index; an invalid index gives the empty string."""
        if self._base is not None and place < self._start:
            return self._base.text(place)
        own = place - self._start
        return self._texts[own] if 0 <= own < len(self._texts) else ""

    def _texts_at(self, flat: NDArray[np.int64]) -> Array:
        if self._base is not None and not self._texts:
            return self._base._texts_at(flat)
        own = flat - self._start
        # A negative index is a large unsigned one.
        inside = own.view(np.uint64) < len(self._texts)
        if np.logical_and.reduce(inside):
            return self._array()[own]
        found = np.full(flat.size, "", TEXT) if self._base is None else self._base._texts_at(flat)
        found[inside] = self._array()[own[inside]]
        return found

    def _array(self) -> Array:
        """Return the strings that this table adds to its base, as an array."""
        if len(self._listed) != len(self._texts):
            self._listed = np.empty(len(self._texts), TEXT)
            self._listed[:] = self._texts
        return self._listed


def check_unicode(text: str) -> None:
    """Check that a string can be encoded as UTF-8.

    Raises:
        InputError: it has a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the string {text[:40]!a} is not Unicode text", hint="it has a lone surrogate"
        ) from None


def check_characters(count: int) -> None:
    """Check the total number of characters of a run's strings.

    Raises:
        ResourceError: the limit is exceeded.
    """
    if count > MOST_CHARACTERS:
        raise ResourceError(
            f"the strings of a run have more than {MOST_CHARACTERS} characters in total",
            hint="reduce the size of the inputs",
        )


def array_of_texts(texts: Iterable[str], shape: Sequence[int]) -> Array:
    """Create an array of strings."""
    items = list(texts)
    found = np.empty(len(items), TEXT)
    found[:] = items
    return found.reshape(tuple(shape))


_current: ContextVar[StringTable | None] = ContextVar("strings", default=None)


def current_strings() -> StringTable:
    """Return the string table of the program that is currently running.

    Raises:
        InputError: no program is running.
    """
    table = _current.get()
    if table is None:
        raise InputError("no program with strings is running")
    return table


@contextmanager
def strings_in(table: StringTable) -> Generator[StringTable]:
    """Use a string table within the context."""
    token = _current.set(table)
    try:
        yield table
    finally:
        _current.reset(token)
