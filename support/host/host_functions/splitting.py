"""Splitting of strings at a delimiter."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from itertools import islice

import numpy as np

from tcopt.support.data.strings import array_of_texts, check_characters
from tcopt.support.host.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.processes.stop_checks import in_steps

_WORD = re.compile(r"\S+")


_SHORT = 1 << 18
"""Maximum length of a string that is split at once, without checks for a stop."""


def _parts(text: str, settings: Settings) -> Iterable[str]:
    """Split a string; without a delimiter, at runs of white space."""
    delimiter, most = settings["delimiter"], settings["maxsplit"]
    if not text:
        return []
    if len(text) <= _SHORT:
        return text.split(delimiter or None, most)
    return in_steps(_split(text, delimiter, most) if delimiter else _words(text, most), len)


def _split(text: str, delimiter: str, most: int) -> Generator[str]:
    start = 0
    while most and (end := text.find(delimiter, start)) >= 0:
        yield text[start:end]
        start, most = end + len(delimiter), most - 1
    yield text[start:]


def _words(text: str, most: int) -> Generator[str]:
    for number, word in enumerate(_WORD.finditer(text)):
        if number == most:
            yield text[word.start() :]
            return
        yield word[0]


@host_function("string_split_counts", takes=(True,), gives=(False,))
def string_split_counts(
    settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
) -> list[Array]:
    """Count the parts of each string."""
    (x,) = arrays
    texts = in_steps(x.reshape(-1).tolist(), len)
    counts = [sum(1 for _ in _parts(text, settings)) for text in texts]
    return [np.array(counts, np.int64).reshape(x.shape)]


@host_function("string_split", takes=(True,), gives=(True,))
def string_split(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Split each string into a row, padded with empty strings."""
    (x,), width = arrays, forms[0].shape[-1]
    check_characters(x.size * width)
    rows: list[str] = []
    for text in in_steps(x.reshape(-1).tolist(), len):
        parts = list(islice(_parts(text, settings), width))
        rows += parts + [""] * (width - len(parts))
    return [array_of_texts(rows, forms[0].shape)]
