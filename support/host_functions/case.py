"""Strings in lower and upper case."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.support.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.stop_checks import in_steps
from tcopt.support.strings import array_of_texts


@host_function("string_case", takes=(True,), gives=(True,))
def string_case(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Convert strings to the setting `case`: `lower` or `upper`."""
    (x,) = arrays
    change = str.lower if settings["case"] == "lower" else str.upper
    texts = in_steps(x.reshape(-1).tolist(), len)
    return [array_of_texts(map(change, texts), x.shape)]
