"""Mapping of loops to threads: of the host, and of the grid of a device."""
