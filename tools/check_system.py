"""Say, one line each, which parts of the system the compiler would like and does not find."""

from __future__ import annotations

import shutil
import sys


def missing() -> list[str]:
    """What is missing, what that prevents and how to get it on Debian."""
    found: list[str] = []
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        found.append("a C compiler: shared libraries cannot be saved (apt-get install gcc)")
    return found


def main() -> int:
    """Print what is missing; never an error, since every part has a substitute or a message."""
    for line in missing():
        print(f"note: not found: {line}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
