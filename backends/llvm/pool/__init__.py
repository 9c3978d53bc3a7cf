"""The thread pool for parallel loops, in LLVM IR."""
