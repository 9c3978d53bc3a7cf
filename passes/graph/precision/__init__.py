"""Conversion of element types: 16-bit floats, and integers instead of floats."""
