"""Regular expressions of models, compiled by RE2 (google-re2), which matches in linear time."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from tcopt.support.errors import InputError
from tcopt.support.extras import missing_package

_LONGEST = 1 << 16
"""Maximum length of a pattern in characters."""


class PatternError(InputError):
    """A regular expression is malformed or too large."""


@lru_cache(maxsize=64)
def compile_pattern(pattern: str, **options: bool) -> Any:
    """Compile a regular expression.

    Args:
        options: options of RE2, such as `longest_match`.
    Raises:
        PatternError: the pattern is malformed, or too large.
        InputError: RE2 is not installed.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError as error:
        raise missing_package(error) or error from None
    if len(pattern) > _LONGEST:
        raise PatternError(
            f"the pattern has {len(pattern)} characters, more than the limit of {_LONGEST}"
        )
    settings = re2.Options()
    settings.log_errors = False
    for name, value in options.items():
        setattr(settings, name, value)
    try:
        return re2.compile(pattern, settings)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(
            f"the pattern {pattern[:60]!a} is malformed: {text}",
            hint="patterns are written in RE2's syntax",
        ) from error
