"""What tools print: control characters are shown, not sent.

Names and texts of a model may hold escape sequences that set a terminal's title, hide lines or
worse, and marks that turn the order of characters around.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_SPECIAL = re.compile(r"[^\t\n -~]")
"""What is not a plain character of ASCII, and has to be looked at."""


def shown(text: str) -> str:
    """A text whose characters are printable but for line breaks and tabs."""
    return _SPECIAL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else found[0].encode("unicode_escape").decode()


class SafeStream:
    """A text stream that shows what the one behind it would send.

    Attributes:
        behind: that stream; for what is meant for a terminal, such as a progress bar.
    """

    def __init__(self, behind: TextIO):
        self.behind = behind

    def write(self, text: str) -> int:
        """Write a text, with what cannot be written in the stream's encoding escaped, too."""
        safe = shown(text)
        try:
            self.behind.write(safe)
        except UnicodeEncodeError:
            encoding = self.behind.encoding
            self.behind.write(safe.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


@contextmanager
def safe_output() -> Generator[None]:
    """Standard output and error show control characters inside."""
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
    """The stream behind one that shows; for text that is the program's own."""
    return stream.behind if isinstance(stream, SafeStream) else stream
