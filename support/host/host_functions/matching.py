"""Matching of strings against regular expressions, by RE2 (google-re2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tcopt.support.errors import ResourceError
from tcopt.support.host.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.host.patterns import compile_pattern
from tcopt.support.processes.stop_checks import apart, in_steps

_QUICK = 1 << 18
"""Number of matcher steps that take at most ten milliseconds."""
_MOST = 1 << 32
"""Maximum number of matcher steps for one string. The slowest take about 50 ns each."""


def matcher_of(pattern: str) -> Callable[[str], bool]:
    """Compile a pattern to a predicate for full matches.

    Raises:
        PatternError: the pattern is malformed, or too large.
        InputError: RE2 is not installed.
    """
    # Without capture groups, RE2 needs a single pass over the text.
    return partial(_matches, compile_pattern(pattern, never_capture=True))


def _matches(compiled: Any, text: str) -> bool:
    steps = len(text) * compiled.programsize
    if steps > _MOST:
        raise ResourceError(
            f"matching a string of {len(text)} characters takes {steps} steps of the pattern, "
            f"more than {_MOST}"
        )
    match = partial(compiled.fullmatch, text)
    return (match() if steps <= _QUICK else apart(match)) is not None


@host_function("regex_full_match", takes=(True,), gives=(False,))
def regex_full_match(
    settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
) -> list[Array]:
    """Return whether each string matches the setting `pattern` as a whole."""
    (x,), matches = arrays, matcher_of(settings["pattern"])
    found = [matches(text) for text in in_steps(x.reshape(-1).tolist(), len)]
    return [np.array(found, np.bool_).reshape(x.shape)]
