"""Loops written out."""
