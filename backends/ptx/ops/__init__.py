"""Rules for ops that only GPU kernels have, or that differ there; see `backends.ptx.registry`."""
