"""Limits of launch grids."""

from __future__ import annotations

LARGEST_GRID = (2**31 - 1, 65_535, 65_535)
"""Maximum number of blocks of a CUDA grid along x, y and z."""
