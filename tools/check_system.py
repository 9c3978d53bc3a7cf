"""Print a line for each optional system component that is not installed."""

from __future__ import annotations

import shutil
import sys


def missing() -> list[str]:
    """Return messages about missing components: what they prevent, and how to install them on
    Debian.
    """
    found: list[str] = []
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        found.append("a C compiler: shared libraries cannot be saved (apt-get install gcc)")
    return found


def main() -> int:
    """Print missing components; the exit code is 0, as all of them are optional."""
    for line in missing():
        print(f"note: not found: {line}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
