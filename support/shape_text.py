"""Shapes as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def shape_text(shape: Sequence[int | str | None]) -> str:
    """`1x3x224x224`, with `?` for what has no name; names are set apart: `batch, 3, 224, 224`."""
    between = ", " if any(isinstance(d, str) for d in shape) else "x"
    return between.join("?" if d is None else str(d) for d in shape)
