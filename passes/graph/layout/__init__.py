"""Layouts of images in memory, and pads."""
