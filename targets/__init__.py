"""Kinds of targets: one file each, found by its `TARGET`; see `interface`."""
