"""Removal of what has no effect."""
