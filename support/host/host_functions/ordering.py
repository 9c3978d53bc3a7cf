"""Ranks of strings."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge

import numpy as np

from tcopt.support.host.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.processes.stop_checks import check_stop, in_steps

_RUN = 1 << 15
"""Number of strings that are sorted between two checks for a stop."""


@host_function("string_ranks", takes=(True,), gives=(False,))
def string_ranks(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Compute the rank of each string among the distinct strings."""
    (x,) = arrays
    texts = x.reshape(-1).tolist()
    different = list(dict.fromkeys(in_steps(texts)))
    runs: list[list[str]] = []
    for start in range(0, len(different), _RUN):
        check_stop()
        runs.append(sorted(different[start : start + _RUN]))
    ordered = runs[0] if len(runs) == 1 else in_steps(merge(*runs))
    ranks = {text: rank for rank, text in enumerate(ordered)}
    return [np.array([ranks[text] for text in in_steps(texts)], np.int64).reshape(x.shape)]
