"""Conversion of image layouts, and propagation of padding."""
