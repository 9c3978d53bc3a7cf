"""Kits: a compiled model as a C library with its own runtime, for programs without Python.

The runtime is in `c` and its interface in `include`. Both are compiled with the model by the
system's C compiler.
"""
