"""Sizes, rows and copies of buffers."""
