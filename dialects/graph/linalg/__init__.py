"""Determinants and inverses of square matrices."""
