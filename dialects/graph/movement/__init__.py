"""Operators that move elements: views, slices, padding, gathers and layouts."""
