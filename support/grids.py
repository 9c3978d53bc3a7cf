"""Limits of the grids that kernels are launched on."""

from __future__ import annotations

LARGEST_GRID = (2**31 - 1, 65_535, 65_535)
"""Blocks of a CUDA grid along x, y and z."""
