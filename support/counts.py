"""Validation of counts given by the user, such as the number of threads."""

from __future__ import annotations

from tcopt.support.errors import InputError

_MOST = 2**31 - 1


def check_count(what: str, number: object) -> int:
    """Check that a count is an integer of at least 1, and return it.

    Raises:
        InputError: the value is not such an integer.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST:
        raise InputError(f"the number of {what} should be at least 1, got {number!r}")
    return number
