"""Rules that write ops as OpenCL C, one file a dialect."""
