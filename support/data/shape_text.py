"""Human-readable text of shapes."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.support.arithmetic.sizes import Extent


def shape_text(shape: Sequence[Extent | str | None]) -> str:
    """Format a shape: `1x3x224x224`, `?` for unknown extents; `batch, 3, 224, 224` with names."""
    between = "x" if all(d is None or isinstance(d, int) for d in shape) else ", "
    return between.join("?" if d is None else str(d) for d in shape)
