"""Storage of constant operands in the order in which kernels read them."""
