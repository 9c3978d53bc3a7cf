"""Utilities for all other folders: errors, discovery, affine index arithmetic."""
