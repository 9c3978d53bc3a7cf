"""Names that PTX takes, and of what it is for."""

from __future__ import annotations

from tcopt.support.identifiers import distinct

DEFAULT_ARCH = "sm_80"
"""What PTX is for where nothing names a device; newer devices take it too."""


def entry_name(symbol: str) -> str:
    """What a kernel is called in PTX: letters, digits and underscores, a letter first."""
    name = distinct(symbol, "kernel_")
    return f"kernel{name}" if name.startswith("_") else name
