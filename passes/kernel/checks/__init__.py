"""What kernels are checked and measured by."""
