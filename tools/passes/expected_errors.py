"""Expected errors in the comments of a test file, in the syntax of MLIR's `-verify-diagnostics`.

    // expected-error @+1 {{operands should have the same type}}
    %0 = graph.add %x, %y : tensor<4xf32>

A comment applies to its own line, to another one with `@+N`, `@-N`, `@above` or `@below`, or with
`@unknown` to an error without a line. The text in braces is a substring of the message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.utils.exceptions import ParseError

from tcopt.tools.command_line.cli import describe

_COMMENT = re.compile(r"//\s*expected-error\s*(@[\w+-]+)?\s*(?:\{\{(.*?)\}\})?")
_PLACE = re.compile(r"@(?:(above)|(below)|(unknown)|([+-]\d+))")
_LINE = re.compile(r"[^\s:(]+:(\d+):\d+")


@dataclass(frozen=True)
class Expected:
    """An error that a comment expects.

    Attributes:
        line: its line, counted from 1; None for an error without a line.
        message: a substring of the message.
        stated: the line of the comment.
    """

    line: int | None
    message: str
    stated: int


def expected_errors(text: str) -> list[Expected]:
    """Return the errors that the comments of a text expect.

    Raises:
        ValueError: a comment is malformed.
    """
    found: list[Expected] = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in _COMMENT.finditer(line):
            if match[2] is None:
                raise ValueError(f"line {number}: expected-error needs a text in {{{{...}}}}")
            found.append(Expected(_line(match[1], number), match[2], number))
    return found


def _line(place: str | None, number: int) -> int | None:
    if place is None:
        return number
    match = _PLACE.fullmatch(place)
    if match is None:
        raise ValueError(f"line {number}: '{place}' is not a position; use @+N, @-N, @above, ...")
    above, below, unknown, offset = match.groups()
    if unknown:
        return None
    return number + (int(offset) if offset else (-1 if above else int(below is not None)))


def complaints(expected: list[Expected], error: Exception | None) -> list[str]:
    """Compare an error with the expected ones; return a message for each difference.

    Args:
        error: what was raised, if anything.
    """
    left = list(expected)
    said: list[str] = []
    if error is not None:
        message, line = describe(error), _line_of(error)
        match = next((e for e in left if e.line == line and e.message in message), None)
        if match is None:
            said.append(f"unexpected error: {message}")
        else:
            left.remove(match)
    for each in left:
        place = "at no line" if each.line is None else f"at line {each.line}"
        said.append(f"line {each.stated}: expected error '{each.message}' {place} was not produced")
    return said


def _line_of(error: Exception) -> int | None:
    """Return the line of the file that an error names."""
    if isinstance(error, ParseError):
        span = error.span
        return str(span.input.content).count("\n", 0, span.start) + 1
    found = _LINE.search(getattr(error, "where", None) or "")
    return int(found[1]) if found else None
