"""Names in PTX, and the default architecture."""

from __future__ import annotations

from tcopt.backends.identifiers import distinct

DEFAULT_ARCH = "sm_80"
"""Architecture of PTX if no device is named; newer devices support it too."""


def entry_name(symbol: str) -> str:
    """Return the name of a kernel in PTX: letters, digits and underscores, a letter first."""
    name = distinct(symbol, "kernel_")
    return f"kernel{name}" if name.startswith("_") else name
