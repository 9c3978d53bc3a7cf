"""Passes on the graph dialect, before tensor expressions."""
