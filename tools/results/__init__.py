"""Comparison of results with other runtimes."""
