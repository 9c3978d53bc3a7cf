"""Names in PTX, and the default architecture."""

from __future__ import annotations

import re

from tcopt.backends.identifiers import distinct

DEFAULT_ARCH = "sm_80"
"""Architecture of PTX if no device is named; newer devices support it too."""


def entry_name(symbol: str) -> str:
    """Return the name of a kernel in PTX: letters, digits and underscores, a letter first."""
    name = distinct(symbol, "kernel_")
    return f"kernel{name}" if name.startswith("_") else name


def dynamic_name(entry: str, size: int) -> str:
    """Return the name of a kernel's dynamic shared memory, which tells launches its size."""
    return f"{entry}_dynamic_{size}"


_DYNAMIC = re.compile(r"\.extern\s+\.shared\s[^;]*?\b(\w+)_dynamic_(\d+)\[\]")


def dynamic_sizes(text: str) -> dict[str, int]:
    """Return the bytes of dynamic shared memory of each kernel in PTX that has some."""
    return {entry: int(size) for entry, size in _DYNAMIC.findall(text)}
