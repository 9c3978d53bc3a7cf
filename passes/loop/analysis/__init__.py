"""Analyses of loops, indices and accesses."""
