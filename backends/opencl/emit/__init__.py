"""OpenCL C of single ops: values, types and names."""
