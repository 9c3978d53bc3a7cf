"""Conversion of names from models and IR to safe identifiers of other languages.

An identifier consists of ASCII letters, digits and underscores and has bounded length, so every
language, assembler and linker accepts it as one word. It cannot inject code. The `names.py` of each
backend is built on these functions.
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
"""Escapes for trigraphs and comment delimiters."""


def identifier(text: str, prefix: str = "v") -> str:
    """Convert a text to a readable identifier; other texts may have the same one."""
    name = _OTHER.sub("_", text)[:_LONGEST]
    return name if _PLAIN.fullmatch(name) else f"{prefix}{name}"


def distinct(text: str, prefix: str = "v", taken: Collection[str] = ()) -> str:
    """Convert a text to a unique identifier: the text itself if it is one.

    Args:
        taken: reserved words.
    """
    plain = _PLAIN.fullmatch(text) and len(text) <= _LONGEST and text not in taken
    if plain and not _MARKED.fullmatch(text[-_DIGITS - 2 :]):
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGITS // 2)
    return f"{identifier(text, prefix)}_x{digest.hexdigest()}"


def comment(text: str) -> str:
    """Convert a text to a line of a comment in any language, with unsafe characters as <hex>."""
    shown = "".join(c if c in _IN_COMMENTS else f"<{ord(c):x}>" for c in text[: 2 * _LONGEST])
    for pair, escaped in _PAIRS.items():
        shown = shown.replace(pair, escaped)
    return shown if len(text) <= 2 * _LONGEST else f"{shown}..."
