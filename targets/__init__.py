"""Kinds of targets, one per file; each file registers its kind. See `interface`."""
