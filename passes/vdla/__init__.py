"""Passes on programs of the accelerator."""
