"""LLVM IR text of single ops: values, types and names."""
