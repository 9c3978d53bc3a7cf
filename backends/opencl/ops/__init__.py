"""Rules that emit ops as OpenCL C, one file per dialect."""
