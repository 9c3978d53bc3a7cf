"""Where buffers start: a promise that the memory plan, kernels, backend and runtime share."""

ALIGNMENT = 64
"""Bytes, a cache line and the widest vector: every buffer that generated code is given, or
reserves, starts at a multiple of it."""
