"""Conversion of strings to lower or upper case."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from tcopt.support.data.strings import array_of_texts
from tcopt.support.host.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.processes.stop_checks import in_steps

_PIECE = 1 << 18
"""Number of characters converted at once, between checks for a stop."""

_SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"
"""The only letter whose lower case depends on its neighbours: it differs at word ends."""

_BOUNDS = frozenset({"Lu", "Ll", "Lo", "Nd", "Zs", "Cc"})
"""Character categories at which the search for the neighbours of a sigma ends."""


@host_function("string_case", takes=(True,), gives=(True,))
def string_case(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Convert strings to the setting `case`: `lower` or `upper`."""
    (x,) = arrays
    is_lower = settings["case"] == "lower"
    texts = in_steps(x.reshape(-1).tolist(), len)
    return [array_of_texts((_converted(text, is_lower=is_lower) for text in texts), x.shape)]


def _converted(text: str, *, is_lower: bool) -> str:
    change = str.lower if is_lower else str.upper
    if len(text) <= _PIECE:
        return change(text)
    pieces = in_steps(_pieces(text, anywhere=not is_lower or _SIGMA not in text), len)
    return "".join(map(change, pieces))


def _pieces(text: str, *, anywhere: bool) -> Iterator[str]:
    """Split a string into pieces whose conversion does not depend on each other."""
    start = 0
    while start < len(text):
        end = min(start + _PIECE, len(text))
        while not anywhere and end < len(text) and not _separates(text[end - 1], text[end]):
            end += 1
        yield text[start:end]
        start = end


def _separates(before: str, after: str) -> bool:
    return all(c != _SIGMA and unicodedata.category(c) in _BOUNDS for c in (before, after))
