"""Tuning choices for graph ops, read from a table."""
