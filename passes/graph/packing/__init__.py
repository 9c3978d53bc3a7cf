"""Packing of operands into the order in which kernels read them."""
