"""Human-readable text of shapes."""

from __future__ import annotations

from collections.abc import Sequence


def shape_text(shape: Sequence[int | str | None]) -> str:
    """Format a shape: `1x3x224x224`, `?` for unknown extents; `batch, 3, 224, 224` with names."""
    between = ", " if any(isinstance(d, str) for d in shape) else "x"
    return between.join("?" if d is None else str(d) for d in shape)
