"""Rules for ops that kernels for a GPU have, or have otherwise; see `backends.ptx.registry`."""
