"""The order of strings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcopt.support.host_functions.registry import Array, Form, Settings, host_function


@host_function("string_ranks", takes=(True,), gives=(False,))
def string_ranks(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Numbers in the order of the strings that they stand for; equal ones for equal strings."""
    (x,) = arrays
    texts = x.reshape(-1).tolist()
    ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return [np.array([ranks[text] for text in texts], np.int64).reshape(x.shape)]
