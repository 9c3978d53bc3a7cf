"""Output of tools, with control characters escaped.

Names and texts of a model may contain escape sequences that set a terminal's title or hide lines,
and marks that change the text direction.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_SPECIAL = re.compile(r"[^\t\n -~]")
"""Characters other than printable ASCII, which may need an escape."""


def shown(text: str) -> str:
    """Return a text with all non-printable characters escaped, except line breaks and tabs."""
    return _SPECIAL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else found[0].encode("unicode_escape").decode()


class SafeStream:
    """A text stream that escapes control characters.

    Attributes:
        behind: the underlying stream, for output that controls the terminal, such as a progress
            bar.
    """

    def __init__(self, behind: TextIO):
        self.behind = behind

    def write(self, text: str) -> int:
        """Write a text; characters that the stream's encoding lacks are escaped, too."""
        safe = shown(text)
        try:
            self.behind.write(safe)
        except UnicodeEncodeError:
            encoding = self.behind.encoding
            self.behind.write(safe.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts, as `write` does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


@contextmanager
def safe_output() -> Generator[None]:
    """Make standard output and error escape control characters in this context."""
    before = sys.stdout, sys.stderr
    if isinstance(before[0], SafeStream):
        yield
        return
    sys.stdout, sys.stderr = (cast(TextIO, SafeStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def bare(stream: TextIO) -> TextIO:
    """Return the underlying stream of a `SafeStream`, for trusted text of the program itself."""
    return stream.behind if isinstance(stream, SafeStream) else stream
