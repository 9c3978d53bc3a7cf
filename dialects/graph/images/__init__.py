"""Operators that sample images: resizing, grid sampling and regions of interest."""
