"""Loops on threads: of the host, and of the grid of a device."""
