"""Names that PTX takes."""

from __future__ import annotations

import re


def entry_name(symbol: str) -> str:
    """What a kernel is called in PTX: letters, digits and underscores, a letter first."""
    name = re.sub(r"\W", "_", symbol)
    return name if name[:1].isalpha() else f"kernel_{name}"
