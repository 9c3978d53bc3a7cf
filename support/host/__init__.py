"""Functions of the host that kernels call."""
