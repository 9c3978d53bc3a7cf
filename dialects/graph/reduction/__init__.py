"""Reductions, normalisations, pooling, scans along an axis and counts."""
