"""Concatenation of strings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcopt.support.data.strings import array_of_texts, check_characters
from tcopt.support.host.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.processes.stop_checks import in_steps


@host_function("string_concat", takes=(True, True), gives=(True,))
def string_concat(
    settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
) -> list[Array]:
    """Concatenate the strings of two arrays with broadcasting."""
    first, second = np.broadcast_arrays(*arrays)
    pairs = list(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist(), strict=True))
    check_characters(sum(len(a) + len(b) for a, b in in_steps(pairs)))
    joined = (a + b for a, b in in_steps(pairs, lambda pair: len(pair[0]) + len(pair[1])))
    return [array_of_texts(joined, first.shape)]
