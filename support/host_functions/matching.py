"""Strings that match regular expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tcopt.support.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.regex import Matcher


@lru_cache(maxsize=64)
def matcher_of(pattern: str) -> Matcher:
    """What matches a pattern; raises as `Matcher`."""
    return Matcher(pattern)


@host_function("regex_full_match", takes=(True,), gives=(False,))
def regex_full_match(
    settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
) -> list[Array]:
    """Whether each whole string matches the setting `pattern`."""
    (x,), matcher = arrays, matcher_of(settings["pattern"])
    found = [matcher.matches(text) for text in x.reshape(-1).tolist()]
    return [np.array(found, np.bool_).reshape(x.shape)]
