"""OpenCL C from kernel-level IR, with the same structure as the IR."""
