"""Affine arithmetic, digits, permutations, and graph algorithms."""
