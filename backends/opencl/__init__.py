"""OpenCL C from kernel-level IR, with the structure of the IR so that both can be read side by
side."""
