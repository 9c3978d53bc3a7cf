"""Names of models and of IR as names of other languages, so that no text becomes code.

An identifier has letters, digits and underscores of ASCII alone, and bounded length, which every
language, assembler and linker takes as one word. Each backend's `names.py` is what writes names
there, by what is said here once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

_LONGEST = 120
_DIGITS = 16
_OTHER = re.compile(r"[^A-Za-z0-9_]")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MARKED = re.compile(rf"_x[0-9a-f]{{{_DIGITS}}}", re.ASCII)
_IN_COMMENTS = frozenset(map(chr, range(ord(" "), 0x7F))) - set("\\")
_PAIRS = {"??": "?<3f>", "*/": "*<2f>", "/*": "/<2a>"}
"""What is something else than two characters somewhere: trigraphs, and ends of comments."""


def identifier(text: str, prefix: str = "v") -> str:
    """A text as a readable identifier; other texts may give the same."""
    name = _OTHER.sub("_", text)[:_LONGEST]
    return name if _PLAIN.fullmatch(name) else f"{prefix}{name}"


def distinct(text: str, prefix: str = "v", taken: Collection[str] = ()) -> str:
    """A text as an identifier that no other text gives: itself if it is one.

    Args:
        taken: words that are not names.
    """
    plain = _PLAIN.fullmatch(text) and len(text) <= _LONGEST and text not in taken
    if plain and not _MARKED.fullmatch(text[-_DIGITS - 2 :]):
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGITS // 2)
    return f"{identifier(text, prefix)}_x{digest.hexdigest()}"


def comment(text: str) -> str:
    """A text as one line of a comment, in any language; what it may not hold is shown as <hex>."""
    shown = "".join(c if c in _IN_COMMENTS else f"<{ord(c):x}>" for c in text[: 2 * _LONGEST])
    for pair, escaped in _PAIRS.items():
        shown = shown.replace(pair, escaped)
    return shown if len(text) <= 2 * _LONGEST else f"{shown}..."
