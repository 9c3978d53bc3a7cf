"""Loop functions as kernels."""
