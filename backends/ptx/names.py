"""Names that PTX takes."""

from __future__ import annotations

from tcopt.support.identifiers import distinct


def entry_name(symbol: str) -> str:
    """What a kernel is called in PTX: letters, digits and underscores, a letter first."""
    name = distinct(symbol, "kernel_")
    return f"kernel{name}" if name.startswith("_") else name
