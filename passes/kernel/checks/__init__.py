"""Checks and measurements of kernels."""
