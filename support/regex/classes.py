"""Sets of characters that a pattern names."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

Test = Callable[[str], bool]

PERL: dict[str, str] = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\t\n\f\r "}
_PARTS = {
    "L": "ultmo",
    "M": "nce",
    "N": "dlo",
    "P": "cdseifo",
    "S": "mcko",
    "Z": "slp",
    "C": "cfos",
}
POSIX: dict[str, str] = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\x00-\x7f",
    "blank": "\t ",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@[-`{-~",
    "space": "\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
CATEGORIES = frozenset(
    (*"LMNPSZC", *(kind + part for kind, parts in _PARTS.items() for part in parts))
)
"""The general categories of Unicode."""


@dataclass(frozen=True)
class CharacterSet:
    """Ranges of characters, and tests of others.

    Attributes:
        ranges: the first and the last character of each.
        tests: functions, of which one says that a character is in the set.
        negated: whether it is the set of all others.
        folds: whether case does not matter.
    """

    ranges: tuple[tuple[str, str], ...] = ()
    tests: tuple[Test, ...] = ()
    negated: bool = False
    folds: bool = False

    def __contains__(self, character: str) -> bool:
        forms = {character}
        if self.folds:
            forms |= {f for f in (character.lower(), character.upper()) if len(f) == 1}
        found = any(
            any(first <= form <= last for first, last in self.ranges)
            or any(test(form) for test in self.tests)
            for form in forms
        )
        return found != self.negated


def ranges_of(text: str) -> tuple[tuple[str, str], ...]:
    """The ranges of a text such as `0-9A-Za-z_`."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        if text[place + 1 : place + 2] == "-" and place + 2 < len(text):
            found.append((text[place], text[place + 2]))
            place += 3
        else:
            found.append((text[place], text[place]))
            place += 1
    return tuple(found)


def complement(inner: CharacterSet) -> CharacterSet:
    """A set as a test of what is not in another one, for use among others."""
    return CharacterSet(tests=(lambda character: character not in inner,))


def category(name: str) -> CharacterSet:
    """The characters of a general category of Unicode: `L`, `Lu`."""
    return CharacterSet(tests=(lambda c: unicodedata.category(c).startswith(name),))


ANY = CharacterSet(negated=True)
ANY_BUT_BREAK = CharacterSet((("\n", "\n"),), negated=True)
