"""The seed texts for mutation: every case of every lit file, in both forms."""

from __future__ import annotations

import re
from pathlib import Path

LIT_TESTS = Path(__file__).resolve().parents[2] / "lit_tests"

_SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*//.*\n?", re.MULTILINE)


def lit_cases(root: Path = LIT_TESTS) -> list[str]:
    """Return the cases of all lit files, without comments, in a fixed order."""
    return [case for path in sorted(root.rglob("*.mlir")) for case in cases_of(path)]


def cases_of(path: Path) -> list[str]:
    """Return the cases of one lit file, without comments."""
    parts = _SEPARATOR.split(path.read_text(encoding="utf-8"))
    texts = (_COMMENT.sub("", part).strip("\n") for part in parts)
    return [text + "\n" for text in texts if text.strip()]
