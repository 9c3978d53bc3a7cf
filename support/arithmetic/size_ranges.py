"""Ranges of named sizes, as users give them: `1..32`, `16..512:16`, `1..512?`, or `(1, 512)`.

A size may also follow from others: `past + length`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral
from operator import index
from typing import TypeAlias, TypeGuard

from tcopt.support.arithmetic.size_parser import names_in
from tcopt.support.arithmetic.sizes import Extent, named_size
from tcopt.support.errors import InputError

_RANGE = re.compile(r"(-?[0-9]{1,18})(?:\.\.(-?[0-9]{1,18})(?::([0-9]{1,18}))?(\?)?)?")
_HINT = "write '2', '1..512', '16..512:16' for multiples of 16, '1..512?', or 'past + length'"


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Inclusive range of a named size.

    Attributes:
        low, high: the ends, both multiples of `multiple` and not equal.
        multiple: number that divides all values.
        falls_back: whether a model that needs one value of the size is compiled for each value;
            otherwise that is an error. It is written `1..512?`.
    """

    low: int
    high: int
    multiple: int = 1
    falls_back: bool = False

    def __str__(self) -> str:
        step = f":{self.multiple}" if self.multiple != 1 else ""
        return f"{self.low}..{self.high}{step}{'?' if self.falls_back else ''}"

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high and value % self.multiple == 0

    def size(self, name: str) -> Extent:
        """Return the symbolic size with this range."""
        return named_size(name, self.low, self.high, self.multiple)


GivenSize: TypeAlias = int | str | range | tuple[int, int] | tuple[int, int, int] | SizeRange
"""A number or range: `7`, `"1..512"`, `range(1, 513)`, `(1, 512)`, or `(16, 512, 16)`; or the text
of a size that follows from others, `"past + length"`."""


def given_size(name: str, given: GivenSize) -> int | SizeRange | str:
    """Return the number or range that the user gives for a size, or the text of a derived size.

    Args:
        name: of the size, for errors.

    Raises:
        InputError: the value is none of them, the range is empty, negative, or its ends are not
            multiples, or the size is derived from itself.
    """
    if _is_number(given):
        return _checked(name, str(given), index(given), index(given), 1, False)
    if isinstance(given, SizeRange):
        return _checked(name, str(given), given.low, given.high, given.multiple, given.falls_back)
    if isinstance(given, str):
        return _parsed(name, given)
    if isinstance(given, range):
        last = given[-1] if given else given.stop - 1
        return _checked(name, str(given), given.start, last, given.step, False)
    numbers = given if isinstance(given, tuple | list) else ()
    if len(numbers) not in (2, 3) or not all(_is_number(number) for number in numbers):
        raise InputError(
            f"dimension {name!r} cannot be {given!r}",
            hint=f"give an integer, a range such as (1, 512), or text: {_HINT}",
        )
    low, high, multiple = (*map(index, numbers), 1)[:3]
    return _checked(name, str(given), low, high, multiple, False)


def _is_number(value: object) -> TypeGuard[int]:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _parsed(name: str, text: str) -> int | SizeRange | str:
    text = text.strip()
    match = _RANGE.fullmatch(text)
    if match is None:
        names = names_in(text)
        if names and name not in names:
            return text
        raise InputError(f"dimension {name!r} cannot be {text!r}", hint=_HINT)
    low, high, multiple, fallback = match.groups()
    ends = int(low), int(low if high is None else high)
    return _checked(name, text, *ends, int(multiple or 1), bool(fallback))


def _checked(
    name: str, text: str, low: int, high: int, multiple: int, falls_back: bool
) -> int | SizeRange:
    problem = None
    if low < 0:
        problem = "sizes are not negative"
    elif high < low:
        problem = "the range is empty"
    elif multiple < 1:
        problem = "the multiple is not positive"
    elif low % multiple or high % multiple:
        end = low if low % multiple else high
        problem = f"{end} is not a multiple of {multiple}"
    if problem:
        raise InputError(f"dimension {name!r} cannot be {text}: {problem}", hint=_HINT)
    return low if low == high else SizeRange(low, high, multiple, falls_back)
