"""Strings in capitals or without."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.support.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.strings import array_of_texts


@host_function("string_case", takes=(True,), gives=(True,))
def string_case(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Each string with all letters as the setting `case` says: `lower` or `upper`."""
    (x,) = arrays
    change = str.lower if settings["case"] == "lower" else str.upper
    return [array_of_texts(map(change, x.reshape(-1).tolist()), x.shape)]
