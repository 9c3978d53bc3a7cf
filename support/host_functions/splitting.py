"""Strings taken apart at a delimiter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcopt.support.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.strings import array_of_texts, check_characters


def _parts(text: str, settings: Settings) -> list[str]:
    """The parts of a string; white space of any length delimits where there is no delimiter."""
    delimiter, most = settings["delimiter"], settings["maxsplit"]
    if not text:
        return []
    return text.split(delimiter or None, most)


@host_function("string_split_counts", takes=(True,), gives=(False,))
def string_split_counts(
    settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
) -> list[Array]:
    """How many parts each string has."""
    (x,) = arrays
    counts = [len(_parts(text, settings)) for text in x.reshape(-1).tolist()]
    return [np.array(counts, np.int64).reshape(x.shape)]


@host_function("string_split", takes=(True,), gives=(True,))
def string_split(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """The parts of each string along a last axis, which empty strings fill up."""
    (x,), width = arrays, forms[0].shape[-1]
    check_characters(x.size * width)
    rows: list[str] = []
    for text in x.reshape(-1).tolist():
        parts = _parts(text, settings)[:width]
        rows += parts + [""] * (width - len(parts))
    return [array_of_texts(rows, forms[0].shape)]
