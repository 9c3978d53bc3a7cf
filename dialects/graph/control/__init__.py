"""Loops, groups of ops and calls of host functions."""
