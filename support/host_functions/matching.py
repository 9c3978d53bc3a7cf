"""Strings that match regular expressions, by RE2 (google-re2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from tcopt.support.errors import InputError, ResourceError, UnsupportedError
from tcopt.support.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.stop_checks import apart, in_steps

_LONGEST = 1 << 16
"""Longest pattern, in characters."""
_QUICK = 1 << 18
"""Steps of the matcher that take at most ten milliseconds."""
_MOST = 1 << 32
"""Steps that one string may take. The slowest take about 50 ns each."""


class PatternError(InputError):
    """A regular expression is malformed, or too large."""


@lru_cache(maxsize=64)
def matcher_of(pattern: str) -> Callable[[str], bool]:
    """Compile a pattern; the result says whether all of a string matches it.

    Raises:
        PatternError: the pattern is malformed, or too large.
        UnsupportedError: RE2 is not installed.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError:
        raise UnsupportedError(
            "regular expressions are matched by the package google-re2, which is not installed",
            hint="install it: pip install google-re2",
        ) from None
    if len(pattern) > _LONGEST:
        raise PatternError(f"the pattern has {len(pattern)} characters, at most {_LONGEST} can be")
    options = re2.Options()
    options.log_errors = False
    # Without groups, one pass over the text is enough.
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(
            f"the pattern {pattern[:60]!a} is malformed: {text}",
            hint="patterns are written in RE2's syntax",
        ) from error
    return partial(_matches, compiled)


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
    """Compute whether each whole string matches the setting `pattern`."""
    (x,), matches = arrays, matcher_of(settings["pattern"])
    found = [matches(text) for text in in_steps(x.reshape(-1).tolist(), len)]
    return [np.array(found, np.bool_).reshape(x.shape)]
