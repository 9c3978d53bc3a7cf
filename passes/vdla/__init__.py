"""Passes on VDLA programs."""
