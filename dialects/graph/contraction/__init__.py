"""Operators that sum products: convolutions and matrix products."""
