"""Operators that sort, or select elements by their value."""
