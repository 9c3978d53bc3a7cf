"""Sizes, alignment and copies of buffers."""
