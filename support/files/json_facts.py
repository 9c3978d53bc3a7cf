"""Typed access to untrusted JSON, with the position of errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar, cast

MOST_BYTES = 1 << 25
_MOST_DEPTH = 32
_MOST_DIGITS = 19
_LARGEST = 2**63 - 1

T = TypeVar("T")


class FactError(ValueError):
    """JSON with missing or wrong values."""


class Facts:
    """A JSON object with typed access to its members.

    Args:
        members: values by name.
        place: position of the object, for messages.
    """

    def __init__(self, members: dict[str, Any], place: str = ""):
        self._members = members
        self._place = place

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def text(self, name: str) -> str:
        return _typed(self._get(name), str, self._at(name))

    def flag(self, name: str) -> bool:
        return _typed(self._get(name), bool, self._at(name))

    def number(self, name: str, least: int = 0, most: int = _LARGEST) -> int:
        """Return an integer within bounds."""
        return _number(self._get(name), self._at(name), least, most)

    def facts(self, name: str) -> Facts:
        """Return a nested object."""
        return Facts(_object(self._get(name), self._at(name)), self._at(name))

    def items(self, name: str) -> list[Facts]:
        """Return a list of objects."""
        values, at = self._list(name), self._at(name)
        return [Facts(_object(v, f"{at}[{i}]"), f"{at}[{i}]") for i, v in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        """Return a list of strings."""
        at = self._at(name)
        return [_typed(v, str, f"{at}[{i}]") for i, v in enumerate(self._list(name))]

    def numbers(self, name: str, least: int = 0, most: int = _LARGEST) -> list[int]:
        """Return a list of integers within bounds."""
        return numbers(self._get(name), self._at(name), least, most)

    def decoded(self, name: str, read: Callable[[Any, str], T]) -> T:
        """Return a member decoded by `read`, called with its value and its position."""
        return read(self._get(name), self._at(name))

    def lists(self, name: str, read: Callable[[Any, str], T]) -> list[T]:
        """Return a list whose items are decoded by `read`, called with a value and its position."""
        at = self._at(name)
        return [read(value, f"{at}[{i}]") for i, value in enumerate(self._list(name))]

    def integers(self, name: str) -> dict[str, int]:
        """Return an object with integer values."""
        found = self.facts(name)
        return {n: _number(v, found._at(n), -_LARGEST, _LARGEST) for n, v in found._pairs()}

    def texts_and_numbers(self, name: str) -> dict[str, str | int]:
        """Return an object with values that are strings or non-negative integers."""
        found = self.facts(name)
        return {
            n: v if isinstance(v, str) else _number(v, found._at(n), 0, _LARGEST)
            for n, v in found._pairs()
        }

    def values(self) -> dict[str, Any]:
        """Return all members unchecked."""
        return dict(self._members)

    def refuse(self, name: str, message: str) -> NoReturn:
        """Raise the error of a member with a wrong value."""
        raise FactError(f"{self._at(name)} {message}")

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        return iter(self._members.items())

    def _list(self, name: str) -> list[Any]:
        return listed(self._get(name), self._at(name))

    def _get(self, name: str) -> Any:
        if name not in self._members:
            raise FactError(f"{self._at(name)} is missing")
        return self._members[name]

    def _at(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name


def parse_facts(data: bytes | str) -> Facts:
    """Parse a JSON object.

    Raises:
        FactError: the text is not an object, is nested too deeply, repeats a member, or has numbers
            that are not finite or exceed 64 bits.
    """
    if len(data) > MOST_BYTES:
        raise FactError(f"the JSON text has {len(data)} bytes, more than the limit of {MOST_BYTES}")
    try:
        value = json.loads(
            data,
            object_pairs_hook=_distinct,
            parse_int=_integer,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise FactError("the JSON text is nested too deeply") from None
    except FactError:
        raise
    except ValueError as error:
        raise FactError(f"the JSON text is malformed: {error}") from None
    if not isinstance(value, dict):
        raise FactError("the JSON text is not an object")
    members = cast("dict[str, Any]", value)
    _check_depth(members)
    return Facts(members)


def numbers(value: Any, at: str, least: int = 0, most: int = _LARGEST) -> list[int]:
    """Check that a value is a list of integers within bounds, and return it."""
    return [_number(v, f"{at}[{i}]", least, most) for i, v in enumerate(listed(value, at))]


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(_MOST_DEPTH):
        inner: list[Any] = [v.values() if isinstance(v, dict) else v for v in level]
        level = [v for values in inner for v in values if isinstance(v, dict | list)]
        if not level:
            return
    raise FactError("the JSON text is nested too deeply")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FactError(f"the member {twice!r} is repeated")
    return found


def _integer(text: str) -> int:
    value = int(text) if len(text) <= _MOST_DIGITS + 1 else _LARGEST + 1
    if abs(value) > _LARGEST:
        raise FactError(f"the number {text[:30]} is too large")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise FactError(f"{text} is not a number")


def _number(value: Any, at: str, least: int, most: int) -> int:
    if not least <= _typed(value, int, at) <= most:
        raise FactError(f"{at} is {value}, not from {least} to {most}")
    return value


_NAMES: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    dict: "an object",
    list: "a list",
}


def _object(value: Any, at: str) -> dict[str, Any]:
    return cast("dict[str, Any]", _typed(value, dict, at))


def listed(value: Any, at: str) -> list[Any]:
    return cast("list[Any]", _typed(value, list, at))


def _typed(value: Any, wanted: type[T], at: str) -> T:
    # In Python, bool is a subclass of int.
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise FactError(f"{at} should be {_NAMES[wanted]}")
    return value
