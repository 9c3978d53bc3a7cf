"""Alignment of buffers, relied on by the memory plan, kernels, the backend and the runtime."""

ALIGNMENT = 64
"""Alignment in bytes of every buffer that generated code receives or allocates: one cache line, or
the widest vector.
"""
