"""Facts of CPUs and devices that need no IR."""
