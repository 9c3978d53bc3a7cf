"""OpenCL C from kernel-level IR: structured, so that the text can be read beside the IR."""
