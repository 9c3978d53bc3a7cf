"""Kinds of targets, one per file; each file exports its kind as `TARGET`. See `interface`."""
