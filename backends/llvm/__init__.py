"""Native code for CPUs: kernel IR -> LLVM IR text -> objects, libraries or a JIT."""
