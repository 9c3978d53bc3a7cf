"""The thread pool that parallel loops run on, written in LLVM IR."""
